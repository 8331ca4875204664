package faulttest_test

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/chaosmesh"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/network"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
	"github.com/seatrial/seatrial/e2e/trial"
)

func TestMain(m *testing.M) {
	if code, is := isAssigned(); is {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

var update = flag.Bool("update", false, "write the golden files anew")

// definitions returns every fault of the registry except Chaos Mesh's, which others inject.
func definitions() []fault.Definition {
	return slices.DeleteFunc(trial.AllParts().Faults, func(d fault.Definition) bool { return d.Name == chaosmesh.Name })
}

// each runs a test for every fault in a world of its own.
func each(t *testing.T, test func(t *testing.T, def fault.Definition, w *world, b faulttest.Bench)) {
	t.Helper()
	for _, def := range definitions() {
		t.Run(def.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				test(t, def, w, w.bench(t, def.Name))
			})
		})
	}
}

func TestEveryFaultConforms(t *testing.T) {
	each(t, func(t *testing.T, def fault.Definition, _ *world, b faulttest.Bench) {
		if err := faulttest.Conform(t.Context(), def, b); err != nil {
			t.Error(err)
		}
	})
}

func TestGoldenCommands(t *testing.T) {
	each(t, func(t *testing.T, def fault.Definition, w *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), def, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		text.WriteString("# commands, node by node; repeated ones once\n")
		for _, n := range []string{"c-control-plane", "c-worker", "c-worker2", "api", "host"} {
			var lines []string
			for _, a := range w.cluster.Transcript.Acts() {
				if line := a.String() + "\n"; a.Node == n && !slices.Contains(lines, line) {
					lines = append(lines, line)
				}
			}
			text.WriteString(strings.Join(inOrder(lines), ""))
		}
		text.WriteString("# evidence\n")
		for _, f := range r.Facts() {
			text.WriteString(string(f.Stage) + "\n")
			for _, e := range f.Evidence {
				text.WriteString("    " + e + "\n")
			}
		}
		golden(t, def.Name+".txt", text.String())
	})
}

// inOrder sorts consecutive probes, which run concurrently and in any order.
func inOrder(lines []string) []string {
	probe := func(line string) bool { return strings.Contains(line, " probe tcp ") }
	for i := 0; i < len(lines); i++ {
		end := i
		for end < len(lines) && probe(lines[end]) {
			end++
		}
		slices.Sort(lines[i:max(i, end)])
		i = max(i, end)
	}
	return lines
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got); go test -update writes it anew:\n%s", path, d)
	}
}

func TestAFaultThatDidNothingIsAnError(t *testing.T) {
	for _, def := range definitions() {
		t.Run(def.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.inert = true
				r, err := faulttest.Run(t.Context(), def, w.bench(t, def.Name), nil)
				var stage *fault.StageError
				if !errors.As(err, &stage) || stage.Stage != "confirm" {
					t.Fatalf("got %v, want an error of confirm", err)
				}
				t.Log(err)
				for _, s := range r.Stages() {
					if s == history.StageConfirmed {
						t.Errorf("stages %q", r.Stages())
					}
				}
			})
		})
	}
}

func TestAPartitionOfOneFamilyIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		b := w.bench(t, "node-partition")
		b.Spec.Params = plan.Params{"families": []string{"ipv4"}}
		_, err := faulttest.Run(t.Context(), network.Partition(), b, nil)
		if err == nil {
			t.Fatal("it passes")
		}
		golden(t, "node-partition-ipv4.txt", err.Error()+"\n")
	})
}

// TestPodsInNoRangeOfTheirNodeAreCutToo has a network plugin that gives pods addresses of its own choice: those of the
// workload must not reach each other while their nodes do not.
func TestPodsInNoRangeOfTheirNodeAreCutToo(t *testing.T) {
	inWorld(t, network.Isolate(), func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), network.Isolate(), b, func(f history.Fault) {
			if f.Stage != history.StageConfirmed {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, ip := range podIPs(peerPod) {
				to := netip.MustParseAddr(ip.IP)
				me := w.addressOf(place{m: w.nodes["c-worker"], pod: "mysql-1"}, to)
				if connected, _ := w.handshake(me, to); connected {
					t.Errorf("%s connects to %s", me, to)
				}
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestAPodThatIsNotCutOffIsFound has a network plugin that forwards packets of pods past nftables.
func TestAPodThatIsNotCutOffIsFound(t *testing.T) {
	for want, def := range map[string]fault.Definition{
		"ICMP pod mysql-1 -> 10.244.2.7: 5 sent, 5 arrived, 5 answered": network.Isolate(),
		"ICMP pod mysql-1 -> 172.18.0.2: 5 sent, 5 arrived, 5 answered": network.Partition(),
		"mysql-1: echo requests out, IPv4: 0 of 1000 lost":              network.Loss(),
	} {
		inWorld(t, def, func(w *world) { w.past = true }, func(t *testing.T, _ *world, b faulttest.Bench) {
			_, err := faulttest.Run(t.Context(), def, b, nil)
			if stageOf(err) != "confirm" || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want an error of confirm with %q", def.Name, err, want)
			}
		})
	}
}

// TestAStrayEchoIsNoHoleInACut has another ping the control plane while the victim's pod is seen to be cut off from it.
func TestAStrayEchoIsNoHoleInACut(t *testing.T) {
	inWorld(t, network.Partition(), func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), network.Partition(), b, func(f history.Fault) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stray = w.stray || f.Stage == history.StageInjected
		})
		want := "ICMP pod mysql-1 -> 172.18.0.2: 5 sent, 0 arrived, 0 answered"
		if got := evidenceOf(r, history.StageConfirmed); err != nil || w.stray || !strings.Contains(got, want) {
			t.Errorf("got %v, evidence %s", err, got)
		}
	})
}

// TestAPodThatGoesIsNoHoleInACut has the victim's pod go between the act and the look from within it.
func TestAPodThatGoesIsNoHoleInACut(t *testing.T) {
	for _, def := range []fault.Definition{network.Partition(), network.Loss()} {
		inWorld(t, def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
			r, err := faulttest.Run(t.Context(), def, b, func(f history.Fault) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if f.Stage == history.StageInjected {
					w.nodes["c-worker"].endContainer()
				}
			})
			got, want := evidenceOf(r, history.StageConfirmed), "is not shown from within mysql-1: process"
			if err != nil || !strings.Contains(got, want) || strings.Contains(got, "pod mysql-1 ->") {
				t.Errorf("%s: got %v, evidence %s", def.Name, err, got)
			}
		})
	}
}

// TestAKubeletBehindALoadBalancerIsNamed has the kubelet reach the API server by an address of none of its nodes.
func TestAKubeletBehindALoadBalancerIsNamed(t *testing.T) {
	balanced := func(w *world) { w.nodes["c-worker"].balanced = true }
	inWorld(t, network.Partition(), balanced, func(t *testing.T, _ *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), network.Partition(), b, nil)
		for _, want := range []string{"it was renewed at", "such as a load balancer's", "the kubelet's kubeconfig"} {
			if stageOf(err) != "confirm" || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error of confirm with %q", err, want)
			}
		}
	})
}

// TestCrashAtEveryAct breaks the harness's access to the nodes at its first act, its second and so on, in each way that
// an act can break (see crashPoints). After a later harness's heal nothing may be left.
func TestCrashAtEveryAct(t *testing.T) {
	for _, def := range definitions() {
		for name, mode := range map[string]fake.CrashMode{
			"refused": fake.CrashError, "half": fake.CrashHalf, "panic": fake.CrashPanics,
		} {
			t.Run(def.Name+"/"+name, func(t *testing.T) {
				for _, n := range crashPoints(t, def) {
					synctest.Test(t, func(t *testing.T) { crashAt(t, def, n, mode) })
				}
			})
		}
	}
}

// crashPoints returns the acts of a fault at which to break it, and one beyond the last. An act equal to three acts
// before it, as in a wait, is skipped.
func crashPoints(t *testing.T, def fault.Definition) []int {
	t.Helper()
	var points []int
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		if _, err := faulttest.Run(t.Context(), def, w.bench(t, def.Name), nil); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for i, a := range w.cluster.Transcript.Acts() {
			if line := a.String(); seen[line] < 2 {
				seen[line]++
				points = append(points, i+1)
			}
		}
		points = append(points, len(w.cluster.Transcript.Acts())+1)
	})
	return points
}

func crashAt(t *testing.T, def fault.Definition, n int, mode fake.CrashMode) {
	w := newWorld()
	b := w.bench(t, def.Name)
	w.cluster.Transcript.CrashAt(n, mode)
	r, err := faulttest.Run(t.Context(), def, b, nil)
	crashed := len(w.cluster.Transcript.Acts()) >= n
	if (err != nil) != crashed {
		t.Errorf("act %d: crashed is %v, error %v, stages %q", n, crashed, err, r.Stages())
	}
	w.cluster.Transcript.CrashAt(0, fake.CrashNever)
	nodes := []clusters.Node{w.cluster.Node("control-plane"), w.cluster.Node("worker"), w.cluster.Node("worker2")}
	if _, err := undo.Cluster(t.Context(), nodes, nil); err != nil {
		t.Errorf("act %d: heal: %v", n, err)
	}
	if _, err := w.armedBeside.Release(t.Context(), nil); err != nil {
		t.Errorf("act %d: heal: %v", n, err)
	}
	later, err := def.New(b.Spec, 1, b.Env)
	if err != nil {
		t.Fatal(err)
	}
	if err := later.Heal(t.Context()); err != nil {
		t.Errorf("act %d: heal: %v", n, err)
	}
	if _, err := later.ConfirmHealed(t.Context()); err != nil {
		t.Errorf("act %d: confirm healed: %v", n, err)
	}
	if left := w.away(); len(left) > 0 {
		t.Errorf("act %d: left %q", n, left)
	}
	left, err := undo.Cluster(t.Context(), nodes, nil)
	for _, l := range left {
		if err != nil || !l.Nothing() {
			t.Errorf("act %d: left %+v, %v", n, l, err)
		}
	}
}

// TestWithoutAHarnessTheNodeHealsItself arms and injects a fault and abandons it.
func TestWithoutAHarnessTheNodeHealsItself(t *testing.T) {
	each(t, func(t *testing.T, def fault.Definition, w *world, b faulttest.Bench) {
		f, err := def.New(b.Spec, 1, b.Env)
		if err != nil {
			t.Fatal(err)
		}
		if err := faulttest.Arm(t.Context(), f, b); err != nil {
			t.Fatal(err)
		}
		if err := f.Inject(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.cluster.Transcript.CrashAt(1, fake.CrashError)
		time.Sleep(fault.Life(b.Spec) + 3*time.Second) // Two nodes may have to do it, one after the other.
		w.cluster.Transcript.CrashAt(0, fake.CrashNever)
		for _, suffix := range []string{"control-plane", "worker"} {
			left, err := undo.Node(t.Context(), w.cluster.Node(suffix), nil)
			if err != nil || !left.Nothing() {
				t.Errorf("left %+v, %v", left, err)
			}
		}
		if left := w.away(); len(left) > 0 {
			t.Errorf("left %q", left)
		}
		if err := f.Heal(t.Context()); err != nil { // Ends the watch of its flows.
			t.Error(err)
		}
	})
}

// TestAnswersThatNeverCome hangs every command of one program: the guard must return by itself, with an error if the
// fault uses that program.
func TestAnswersThatNeverCome(t *testing.T) {
	for _, program := range []string{"nft", "systemctl", "tc", nodeagent.Path, nodeagent.DiskPath} {
		each(t, func(t *testing.T, def fault.Definition, w *world, b faulttest.Bench) {
			w.cluster.Node("worker").On([]string{program, "..."}, fake.Reply{Hang: true})
			begin := time.Now()
			_, err := faulttest.Run(t.Context(), def, b, nil)
			needed := slices.ContainsFunc(w.cluster.Transcript.Acts(), func(a fake.Act) bool {
				return a.Node == "c-worker" && strings.HasPrefix(a.String(), "c-worker: "+program+" ")
			})
			if (err != nil) != needed {
				t.Errorf("%s: it is used: %t, got %v", program, needed, err)
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, await.ErrTimeout) {
				t.Errorf("%s: %v is no timeout", program, err)
			}
			if took := time.Since(begin); took > 10*time.Minute {
				t.Errorf("%s: took %s", program, took)
			}
		})
	}
}

// TestACutThatEndsByItselfIsFound deletes the table during the hold, as a timer that fires early does.
func TestACutThatEndsByItselfIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		b := w.bench(t, "node-partition")
		_, err := faulttest.Run(t.Context(), network.Partition(), b, func(f history.Fault) {
			if f.Stage == history.StageConfirmed {
				w.mu.Lock()
				defer w.mu.Unlock()
				clear(w.nodes["c-worker"].tables)
			}
		})
		var stage *fault.StageError
		if !errors.As(err, &stage) || stage.Stage != "hold" || !strings.Contains(err.Error(), "ended by itself") {
			t.Errorf("got %v", err)
		}
	})
}
