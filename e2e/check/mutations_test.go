package check_test

import (
	"encoding/json"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// mutation is one change of the passing trial and what a check must make of it.
type mutation struct {
	name   string
	check  string
	change func([]history.Event) []history.Event
	want   check.Verdict
	says   string // In a finding's sentence for Fail, in a reason for Unknown.
}

const (
	kubeletPath = "/var/lib/kubelet/pods/9-9/volumes/kubernetes.io~local-volume/data-mysql-0"
	csiPath     = "/var/lib/kubelet/pods/9-9/volumes/kubernetes.io~csi/shared/mount"
)

func rowMutations() []mutation {
	ok, pass, fail, unknown := history.StageOK, check.Pass, check.Fail, check.Unknown
	write := func(e *history.Event) *history.Row { return &e.Rows.Rows[3] }
	return []mutation{
		{"nothing changed", "rows", nil, pass, ""},
		{"acknowledged row dropped", "rows",
			edit(rowsOf("mysql-1", 1), func(e *history.Event) { e.Rows.Rows = e.Rows.Rows[1:] }),
			fail, "mysql-1 lost a row that it had acknowledged: client 2, seq 1, acknowledged at +9.210 s, last read"},
		{"row there twice", "rows", edit(rowsOf("mysql-0", 2), func(e *history.Event) {
			e.Rows.Rows = append(e.Rows.Rows, e.Rows.Rows[0])
		}), fail, "mysql-0 holds one row 2 times"},
		{"stored crc flipped", "rows",
			edit(rowsOf("mysql-0", 1), func(e *history.Event) { write(e).CRC ^= 1; write(e).Sum ^= 1 }),
			fail, "holds a damaged row: client 1, seq 4"},
		{"payload damaged under its crc", "rows", edit(rowsOf("mysql-0", 1),
			func(e *history.Event) { write(e).Sum ^= 1 }),
			fail, "holds a damaged row: client 1, seq 4"},
		{"row of nobody", "rows", edit(rowsOf("mysql-2", 1), func(e *history.Event) {
			e.Rows.Rows = append(e.Rows.Rows, history.Row{Client: 77, Seq: 5})
		}), fail, "holds a row that no client wrote: client 77, seq 5"},
		{"refused insert is there", "rows", edit(op(history.OpInsert, ok, "mysql-0", 7), func(e *history.Event) {
			e.Op.Stage = history.StageFailed
		}), fail, "holds a row whose insert it had refused: client 1, seq 7"},
		{"unknown outcome is there", "rows", edit(op(history.OpInsert, ok, "mysql-0", 7), func(e *history.Event) {
			e.Op.Stage = history.StageUnknown
		}), pass, ""},
		{"insert never answered is there", "rows", drop(op(history.OpInsert, ok, "mysql-0", 7)), pass, ""},
		{"invocation not recorded", "rows", drop(op(history.OpInsert, history.StageInvoke, "mysql-0", 7)), unknown,
			"not whole"},
		{"read misses an acknowledged row", "rows", edit(op(history.OpRead, ok, "mysql-0", 1),
			func(e *history.Event) {
				no := false
				e.Op.Found, e.Op.Intact = &no, nil
			}), fail, "lost a row for a time or for good: client 1, seq 1"},
		{"read finds a damaged row", "rows", edit(op(history.OpRead, ok, "mysql-0", 1), func(e *history.Event) {
			no := false
			e.Op.Intact = &no
		}), fail, "returned a damaged row"},
		{"read finds another payload", "rows", edit(op(history.OpRead, ok, "mysql-0", 1),
			func(e *history.Event) { e.Op.CRC++ }),
			fail, "returned a damaged row"},
		{"read sent as its row was acknowledged", "rows", add(func(t *historytest.Trial) {
			t.Insert("mysql-0", 1, 9001, ok, 20, 20.01)
			t.Read("mysql-0", 1, 9001, false, 20.01, 20.02)
		}), pass, ""},
		{"read sent 1 ns after its row was acknowledged", "rows", add(func(t *historytest.Trial) {
			t.Insert("mysql-0", 1, 9001, ok, 20, 20.01)
			t.Read("mysql-0", 1, 9001, false, 20.010000001, 20.02)
		}), fail, "client 1, seq 9001"},
		{"final read without its second chunk", "rows", drop(rowsOf("mysql-1", 2)), unknown, "1 of its 2 chunks"},
		{"final read with an error", "rows",
			edit(rowsOf("mysql-1", 2), func(e *history.Event) { e.Rows.Error = "gone away" }),
			unknown, "gone away"},
		{"no final read", "rows", drop(kind(history.KindRows)), unknown, "there is none"},
		{"damage in a read that is not whole", "rows", then(drop(rowsOf("mysql-0", 2)),
			edit(rowsOf("mysql-0", 1), func(e *history.Event) { write(e).Sum ^= 1 })), fail, "damaged row"},
		{"too few inserts", "rows", drop(after(op(history.OpInsert, ok, "mysql-2", 0), 11)), unknown, "too few"},
		{"seq used twice", "rows", add(func(t *historytest.Trial) { t.Insert("mysql-0", 1, 1, ok, 20, 20.01) }),
			unknown, "two inserts"},
	}
}

func mountMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	second := func(path string, from, to float64) func([]history.Event) []history.Event {
		return add(func(t *historytest.Trial) {
			id := t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 100, path, from)
			t.Unmount("worker2", historytest.FirstBoot, id, to)
		})
	}
	return []mutation{
		{"nothing changed", "mounts", nil, pass, ""},
		{"second node by kubelet", "mounts", second(kubeletPath, 20, 21), fail,
			"mounted on worker and on worker2 at once"},
		{"second node by hand", "mounts", second("/mnt/by-hand", 20, 21), fail,
			"certainly from +20.000 s to +21.000 s"},
		{
			"second node, certain for 1 ns",
			"mounts",
			second("/mnt/by-hand", 20, 20.000100001),
			fail,
			"(1ns, and possibly",
		},
		{"second node, certain for 0 ns", "mounts", second("/mnt/by-hand", 20, 20.0001), unknown,
			"may have been mounted"},
		{"second node to the end", "mounts", add(func(t *historytest.Trial) {
			t.Mount(history.MountAttach, "control-plane", historytest.FirstBoot, 102, csiPath, 70)
		}), fail, "volume data-mysql-2"},
		{"second node, its ledger silent at once", "mounts", then(add(func(t *historytest.Trial) {
			t.Mount(history.MountAttach, "control-plane", historytest.FirstBoot, 102, csiPath, 75)
		}), drop(after(observer("mounts", "control-plane",
			history.ObserverBeat), 74.5))), unknown, "may have been mounted"},
		{"rebooted node held it until its last beat", "mounts", add(func(t *historytest.Trial) {
			t.Mount(history.MountAttach, "control-plane", historytest.FirstBoot, 101, csiPath, 31.5)
		}), fail, "data-mysql-1"}, // The second boot mounts it again.
		{"mounted while the node was down", "mounts", add(func(t *historytest.Trial) {
			id := t.Mount(history.MountAttach, "control-plane", historytest.FirstBoot, 101, csiPath, 31.5)
			t.Unmount("control-plane", historytest.FirstBoot, id, 32.5)
		}), unknown, "may have been mounted on worker2 and on control-plane"},
		{"mounted after the new boot began", "mounts", add(func(t *historytest.Trial) {
			id := t.Mount(history.MountAttach, "control-plane", historytest.FirstBoot, 101, csiPath, 33.02)
			t.Unmount("control-plane", historytest.FirstBoot, id, 33.4)
		}), pass, ""},
		{"secret on two nodes", "mounts", add(func(t *historytest.Trial) {
			path := "/var/lib/kubelet/pods/9-9/volumes/kubernetes.io~secret/s"
			t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 900, path, 20)
			t.Mount(history.MountAttach, "control-plane", historytest.FirstBoot, 900, path, 20)
		}), pass, ""},
	}
}

func blindMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	return []mutation{
		{"mount nobody could identify, brief", "mounts", unidentified(20, 20.001, true), pass, ""},
		{"mount nobody could identify, long", "mounts", unidentified(20, 26, true), unknown, "blind for 6"},
		{"mount nobody could identify, to the end", "mounts", unidentified(20, 0, false), unknown, "blind for"},
		{"gap of 5 s", "mounts", blindFor("worker", history.ObserverGap, 20, 25), pass, ""},
		{"gap of 5.001 s", "mounts", blindFor("worker", history.ObserverGap, 20, 25.001), unknown,
			"blind for 5.001s"},
		{"losses that touch", "mounts", then(blindFor("worker", history.ObserverLoss, 20, 23),
			func(events []history.Event) []history.Event {
				extra := historytest.New(historytest.SmokePlan())
				extra.Observer("mounts", "worker", historytest.FirstBoot, history.ObserverLoss, "", 23, 26)
				return append(events, extra.History().Events[1])
			}), unknown, "blind for 6s"},
		{"no ledger on a node", "mounts", drop(func(e *history.Event) bool {
			return e.Source == "ledger/control-plane"
		}), unknown, "node control-plane kept no mount ledger"},
		{"ledger silent too early", "mounts", drop(after(observer("mounts", "worker", history.ObserverBeat), 67)),
			unknown, "blind for"},
		{"ledger after reboot began late", "mounts", editAll(observer("mounts", "worker2", history.ObserverOn),
			func(e *history.Event) {
				e.Observer.Detail = strings.ReplaceAll(e.Observer.Detail, "before", "after")
			}), pass, ""}, // 31 s to 33.2 s is within the bound.
		{"reboot that no fault explains", "mounts", then(drop(kind(history.KindFault)),
			drop(after(before(observer("mounts", "worker2", history.ObserverBeat), 32), 27))), unknown, "blind for"},
		{"reboot that a fault explains", "mounts", edit(faultStage(6, history.StageIntent), func(e *history.Event) {
			e.Span = history.At(historytest.At(28))
		}), pass, ""},
		{"ledger begun again, mounts listed anew", "mounts", begunAgain(true, nil), pass, ""},
		{"ledger begun again, volume handed over later", "mounts", begunAgain(true, func(t *historytest.Trial) {
			t.Mount(history.MountAttach, "worker2", historytest.SecondBoot, 102, "/mnt/later", 63)
		}), fail, "data-mysql-2"}, // It was mounted at +60 s on worker.
		{"mount lost in a gap, other node long after", "mounts", begunAgain(false, func(t *historytest.Trial) {
			t.Mount(history.MountAttach, "worker2", historytest.SecondBoot, 555, csiPath, 40)
		}), pass, ""},
		{"mount lost in a gap, other node within it", "mounts", begunAgain(false, func(t *historytest.Trial) {
			id := t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 555, csiPath, 21)
			t.Unmount("worker2", historytest.FirstBoot, id, 21.5)
		}), unknown, "volume shared may have been mounted"},
		{"mount before a gap, other node before it", "mounts", begunAgain(false, func(t *historytest.Trial) {
			id := t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 555, csiPath, 19)
			t.Unmount("worker2", historytest.FirstBoot, id, 19.5)
		}), fail, "Volume shared was mounted on worker and on worker2 at once, certainly from +19.000 s to +19.500 s"},
		{"two directories of one disk", "mounts", directories("/a", "/b"), pass, ""},
		{"one directory of one disk", "mounts", directories("/a", "/a"), fail,
			"mounted on worker and on worker2 at once"},
		{"a directory in the other", "mounts", directories("/a", "/a/b"), fail,
			"mounted on worker and on worker2 at once"},
		{"nothing mounted", "mounts", drop(kind(history.KindMount)), unknown, "0 volumes were seen mounted for a pod"},
		{"a volume never mounted for its pod", "mounts", drop(func(e *history.Event) bool {
			return e.Kind == history.KindMount && strings.HasSuffix(e.Mount.Path, "/data-mysql-1") &&
				strings.Contains(e.Mount.Path, "kubelet")
		}), unknown, "2 volumes were seen mounted for a pod"},
		{"volume without identity", "mounts", edit(kind(history.KindVolume), func(e *history.Event) {
			e.Volume.Identity = history.Identity{}
		}), unknown, "no identity"},
		{"no nodes", "mounts",
			drop(func(e *history.Event) bool { return e.Kind == history.KindObject && e.Object.Resource == "nodes" }),
			unknown, "no node of the cluster"},
	}
}

// unidentified is a mount on worker of which nothing but its life is known.
func unidentified(from, to float64, ends bool) func([]history.Event) []history.Event {
	return then(add(func(t *historytest.Trial) {
		id := t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 4711, "", from)
		if ends {
			t.Unmount("worker", historytest.FirstBoot, id, to)
		}
	}), edit(func(e *history.Event) bool {
		return e.Kind == history.KindMount && e.Mount.Identity.BackingInode == 4711
	},
		func(e *history.Event) { e.Mount.Identity, e.Mount.Unknown, e.Mount.Root = history.Identity{}, true, "" }))
}

// begunAgain lets the ledger of worker stop at +20 s and begin again at +22 s. A volume called shared was mounted there
// at +10 s; the new ledger lists what it finds, and that one only when it was kept.
func begunAgain(kept bool, tell func(*historytest.Trial)) func([]history.Event) []history.Event {
	return then(add(func(t *historytest.Trial) {
		const node, boot = "worker", historytest.FirstBoot
		t.Mount(history.MountAttach, node, boot, 555, csiPath, 10)
		t.Observer("mounts", node, boot, history.ObserverGap, "the ledger did not run", 20, 22)
		t.Observer("mounts", node, boot, history.ObserverOn, "fanotify", 22, 22)
		t.Mount(history.MountPresent, node, boot, 100, "/var/lib/seatrial/data-mysql-0", 22.01)
		t.Mount(history.MountPresent, node, boot, 102, "/var/lib/seatrial/data-mysql-2", 22.01)
		if kept {
			t.Mount(history.MountPresent, node, boot, 555, csiPath, 22.01)
		}
		if tell != nil {
			tell(t)
		}
	}), drop(before(after(observer("mounts", "worker", history.ObserverBeat), 20.5), 21.5)))
}

// directories are two directories of one disk, each mounted by the kubelet of a node.
func directories(a, b string) func([]history.Event) []history.Event {
	path := strings.Replace(kubeletPath, "data-mysql-0", "directory", 1)
	disk := func(root string, e *history.Event) {
		e.Mount.Identity, e.Mount.Root = history.Identity{Device: "8:1"}, root
	}
	at := func(node string) match {
		return func(e *history.Event) bool {
			return e.Kind == history.KindMount && e.Mount.Path == path && e.Mount.Node == node
		}
	}
	return then(add(func(t *historytest.Trial) {
		t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 1, path, 20)
		t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 1, path, 21)
	}), edit(at("worker"), func(e *history.Event) {
		disk(a,
			e)
	}), edit(at("worker2"), func(e *history.Event) { disk(b, e) }))
}

func blindFor(node string, state history.ObserverState, from, to float64) func([]history.Event) []history.Event {
	return add(func(t *historytest.Trial) {
		t.Observer("mounts", node, historytest.FirstBoot, state, "", from, to)
	})
}

func checksumMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	return []mutation{
		{"nothing changed", "checksums", nil, pass, ""},
		{"checksum differs after a fault", "checksums", editAll(after(checksum("mysql-1", "after-node-reboot"), 0),
			func(e *history.Event) {
				e.Checksum.Table64++
			}), fail, `mysql-1 table quiet changed between the checksums "between" (step 5)`},
		{"row hash differs alone", "checksums", edit(checksum("mysql-1", "settled"), func(e *history.Event) {
			e.Checksum.RowHash = strings.Repeat("a", 64)
		}), fail, "row hash"},
		{"row count differs", "checksums", edit(checksum("mysql-1", "settled"),
			func(e *history.Event) { e.Checksum.Rows = 999 }),
			fail, "1000 rows, then 999"},
		{"ledger changes after the end", "checksums", edit(after(checksum("mysql-2", "settled"), 72.7),
			func(e *history.Event) {
				e.Checksum.Table64++
			}), fail, "after the last client had stopped"},
		{"no checksum between two faults", "checksums", then(drop(checksum("mysql-2", "between")),
			drop(checksum("mysql-2", "never"))), unknown, "mysql-2 table quiet: there is no checksum"},
		{"checksum could not be taken", "checksums", edit(checksum("mysql-2", "between"), func(e *history.Event) {
			e.Checksum.Error = "gone"
		}), unknown, "could not be taken: gone"},
		{"not filled", "checksums", drop(checksum("mysql-0", "filled")), unknown, `the checksum "filled" is missing`},
		{"not settled", "checksums", drop(checksum("mysql-0", "settled")), unknown,
			`the checksum "settled" is missing`},
		{"an instance without any", "checksums", drop(func(e *history.Event) bool {
			return e.Kind == history.KindChecksum && e.Checksum.Instance == "mysql-0"
		}), unknown, "mysql-0: no checksum"},
		{"fault not over", "checksums", drop(faultStage(3, history.StageConfirmedHealed)), unknown, "mean nothing"},
	}
}

func podJSON(phase string, ready, ending bool) json.RawMessage {
	t := historytest.New(historytest.SmokePlan())
	t.Pod(history.VerbAdded, "mysql-0", phase, ready, ending, 0)
	return t.History().Events[1].Object.Raw
}
