package check_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// evicted adds to the trial on disks that the disk of mysql-0 is pulled out of worker from +20 s to +20.4 s, and that
// its volume is mounted on worker2 from +21 s on, in the order in which a driver that fences does it.
func evicted(pull func(*history.Pull), more func(*historytest.Trial)) func([]history.Event) []history.Event {
	return addDisk(func(t *historytest.Trial) {
		t.Call("ControllerUnpublishVolume", "pvc-0", "worker", 19.9, 20.5, historytest.On())
		t.Pull("pvc-0", "worker", 100, 20, 20.4, pull)
		t.Call("ControllerPublishVolume", "pvc-0", "worker2", 20.6, 20.7, historytest.On("worker2"))
		t.InUse("worker2", 20.75, "pvc-0", "pvc-1")
		t.Call("NodeStageVolume", "pvc-0", "worker2", 20.8, 21.2, nil)
		id := t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 100, historytest.GlobalPath("pvc-0"), 21)
		t.Unmount("worker2", historytest.FirstBoot, id, 30)
		if more != nil {
			more(t)
		}
	})
}

// pullMutations decide whether a pull counts, and so whether there is a double mount.
func pullMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	const twice, back = "Volume pvc-0 (ReadWriteOnce) was mounted on worker and on worker2 at once",
		"Volume pvc-0 (ReadWriteOnce) was mounted on worker2 and on worker at once, certainly from +24.000 s"
	const perhaps = "volume pvc-0 may have been mounted on worker2 and on worker at once from +24.000 s on"
	of := func(f func(*history.Pull)) func([]history.Event) []history.Event { return evicted(f, nil) }
	at := func(from, to float64) func([]history.Event) []history.Event {
		return then(evicted(nil, nil), edit(kind(history.KindPull), func(e *history.Event) {
			e.Span = history.Between(historytest.At(from), historytest.At(to))
		}))
	}
	again := func(t *historytest.Trial) { // A mount of the volume where its disk was pulled.
		t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 100, historytest.GlobalPath("pvc-0"), 24)
	}
	stage := func(code string, end float64) func(t *historytest.Trial) {
		return func(t *historytest.Trial) {
			t.Call("NodeStageVolume", "pvc-0", "worker", 23.5, end, func(c *history.CSI) { c.Code = code })
			again(t)
		}
	}
	return []mutation{
		{"pulled, then elsewhere", "mounts", evicted(nil, nil), pass, ""},
		{"elsewhere, and not pulled", "mounts", then(evicted(nil, nil), drop(kind(history.KindPull))), fail, twice},
		{"nothing tried", "mounts", of(func(p *history.Pull) { p.Tries = nil }), fail, twice},
		{"the device was there", "mounts", of(func(p *history.Pull) { p.Tries[0].Bytes = 4096 }), fail, twice},
		{"the file system was there", "mounts", of(func(p *history.Pull) { p.Tries[1].Errno = "" }), fail, twice},
		{"not done", "mounts", of(func(p *history.Pull) { p.Error = "busy" }), fail, twice},
		{"out of another node", "mounts", of(func(p *history.Pull) { p.Node = "control-plane" }), fail, twice},
		{"in another boot", "mounts", of(func(p *history.Pull) { p.Boot = "77.000s" }), fail, twice},
		{"of another file", "mounts", of(func(p *history.Pull) { p.Identity.BackingInode = 101 }), fail, twice},
		{"of another device", "mounts", of(func(p *history.Pull) { p.Identity.Device = "7:9" }), fail, twice},
		{"pulled after it was mounted elsewhere", "mounts", at(21.1, 21.5), fail,
			"certainly from +21.000 s to +21.100 s"},
		{"pulled around the mount elsewhere", "mounts", at(20.8, 21.2), unknown,
			"volume pvc-0 may have been mounted on worker and on worker2 at once"},
		{"pulled up to the mount elsewhere", "mounts", at(20.8, 21), pass, ""},
		{"mounted again, not staged", "mounts", evicted(nil, again), pass, ""},
		{"mounted again, staged", "mounts", evicted(nil, stage("OK", 23.9)), fail, back},
		{"mounted again, staged in vain", "mounts", evicted(nil, stage("Internal", 23.9)), unknown, perhaps},
		{"mounted again for a moment, staged in vain", "mounts", evicted(nil, func(t *historytest.Trial) {
			t.Call("NodeStageVolume", "pvc-0", "worker", 23.5, 23.9, func(c *history.CSI) { c.Code = "Internal" })
			path := historytest.GlobalPath("pvc-0")
			id := t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 100, path, 24)
			t.Unmount("worker", historytest.FirstBoot, id, 25)
		}), unknown, perhaps},
		{"mounted again, staging cut off", "mounts", evicted(nil, stage("OK", 0)), unknown, perhaps},
		{"mounted again, staging a lie", "mounts", then(evicted(nil, stage("OK", 23.9)),
			edit(func(e *history.Event) bool {
				return e.Kind == history.KindCSI && e.CSI.End && e.Span.NotAfter == historytest.At(23.9)
			}, func(e *history.Event) { e.CSI.Point = "lie" })), unknown, perhaps},
		{"mounted again, perhaps staged", "mounts", evicted(nil, func(t *historytest.Trial) {
			t.Observer("csi", "worker", "", history.ObserverGap, "lost", 22, 23)
			again(t)
		}), unknown, perhaps},
		{"perhaps mounted before it was staged anew", "mounts", then(evicted(nil, stage("OK", 23.9)),
			edit(func(e *history.Event) bool {
				return e.Kind == history.KindMount && e.Mount.Node == "worker" && e.Span.NotBefore == historytest.At(24)
			}, func(e *history.Event) { e.Span.NotBefore = historytest.At(23.4) })), unknown, "may have been mounted"},
		{"another volume staged", "mounts", evicted(nil, func(t *historytest.Trial) {
			t.Call("NodeStageVolume", "pvc-1", "worker", 23.5, 23.6, nil)
			again(t)
		}), pass, ""},
		{"a container begun on a dead mount", "mounts", evicted(nil, func(t *historytest.Trial) {
			t.Holding("worker", 100, "other-uid", 24, 30)
		}), pass, ""},
		{"attached elsewhere, pulled", "attach-order", evicted(nil, nil), pass, ""},
		{"attached elsewhere, not pulled", "attach-order", then(evicted(nil, nil), drop(kind(history.KindPull))), fail,
			"Volume pvc-0 was attached to node worker2 at +20.700 s while node worker still had it mounted"},
		{"attached elsewhere, pulled later", "attach-order", at(20.75, 20.9), fail, "still had it mounted"},
		{"pulled while mounted", "detach-order", evicted(nil, nil), fail,
			"Volume pvc-0 was detached from node worker at +19.900 s while the node still had it mounted"},
		{"pulled from a container", "unpublish-in-use", evicted(nil, nil), pass, ""},
	}
}

// TestPullIsNoted holds that the notes say which mounts counted as over, by which pull, and which pulls were unproven.
func TestPullIsNoted(t *testing.T) {
	notes := func(change func([]history.Event) []history.Event) string {
		return strings.Join(result(t, trialOf(change), "mounts").Notes, "\n")
	}
	const none = "counts for nothing"
	const over = "volume pvc-0: 3 mounts on worker, over from +20.400 s on at the latest: its disk was " +
		"pulled out of that node (read of 4096 bytes at 0 with O_DIRECT of the device: no byte, sync of the root of " +
		"the file system: EIO); mysqld (pid 4100) was not seen to end"
	for name, change := range map[string]func([]history.Event) []history.Event{
		"pulled": evicted(nil, nil),
		"one that was over before is not counted": evicted(nil, func(t *historytest.Trial) {
			path := historytest.PodPath("early-uid", "pvc-0")
			id := t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 100, path, 12)
			t.Unmount("worker", historytest.FirstBoot, id, 13)
		}),
	} {
		if got := notes(change); !strings.Contains(got, over) || strings.Contains(got, none) {
			t.Errorf("%s: notes:\n%s\nwant\n%s", name, got, over)
		}
	}
	for why, change := range map[string]func(*history.Pull){
		"busy": func(p *history.Pull) { p.Error = "busy" },
		"that node was not shown to get nothing from it": func(p *history.Pull) { p.Tries = nil },
	} {
		got := notes(evicted(change, nil))
		want := "volume pvc-0: that its disk was pulled out of worker by +20.400 s counts for nothing: " + why
		if !strings.Contains(got, want) || strings.Contains(got, "over from") {
			t.Errorf("notes:\n%s\nwant\n%s", got, want)
		}
	}
}

// TestPullAgainstSpans draws when a disk was pulled and when it was mounted elsewhere: the check fails if and only if
// two nodes certainly had it at once, and passes only if they certainly did not.
func TestPullAgainstSpans(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		at := func(name string) float64 { return float64(rapid.IntRange(200, 240).Draw(rt, name)) / 10 }
		mounted, from, length := at("mounted"), at("from"), at("length")-20
		to := from + length
		h := historytest.Disk(func(t *historytest.Trial) {
			t.Pull("pvc-0", "worker", 100, from, to, nil)
			path := historytest.GlobalPath("pvc-0")
			t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 100, path, mounted)
		}).History()
		want := check.Pass
		switch {
		case mounted+0.0001 < from-1e-9:
			want = check.Fail
		case mounted < to-1e-9:
			want = check.Unknown
		}
		if res := result(t, h, "mounts"); res.Verdict != want {
			rt.Fatalf("%s, want %s: pulled from %v to %v, mounted at %v: %q", res.Verdict, want, from, to, mounted,
				said(res))
		}
	})
}

// TestPullGarbage corrupts the events of a trial in which a disk was pulled: no check that uses pulls crashes.
func TestPullGarbage(t *testing.T) {
	whole := evicted(nil, nil)(nil)
	rapid.Check(t, func(rt *rapid.T) {
		h := history.History{Events: slices.Clone(whole)}
		near := slices.IndexFunc(h.Events, func(e history.Event) bool { return e.Kind == history.KindPull })
		for range rapid.IntRange(1, 20).Draw(rt, "changes") {
			spoil(rt, h.Events, rapid.IntRange(max(0, near-40), min(near+40, len(h.Events)-1)).Draw(rt, "at"))
		}
		for _, name := range []string{"mounts", "attach-order"} {
			if said := said(result(t, h, name)); strings.Contains(said, "crashed") {
				rt.Fatalf("%s: %s", name, said)
			}
		}
	})
}

// TestEvictedFailsInOrderAlone holds that a forced detach on storage that fences breaks the order and nothing else.
func TestEvictedFailsInOrderAlone(t *testing.T) {
	var bad []string
	for _, res := range judgeTwice(t, trialOf(evicted(nil, nil))).Results {
		if res.Verdict != check.Pass {
			bad = append(bad, res.Check+" "+string(res.Verdict))
		}
	}
	if want := []string{"detach-order FAIL"}; !slices.Equal(bad, want) {
		t.Errorf("not passed: %q, want %q", bad, want)
	}
}
