package observe_test

import (
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/kind/kindtest"
	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/e2e/observe/apiwatch"
	"github.com/seatrial/seatrial/e2e/observe/nodefacts"
)

// kept is a Recorder that keeps what it is given.
type kept struct {
	mu     sync.Mutex
	events []history.Event
}

func (k *kept) Record(e history.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

func (k *kept) all(match func(history.Event) bool) []history.Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	var found []history.Event
	for _, e := range k.events {
		if match(e) {
			found = append(found, e)
		}
	}
	return found
}

// await waits for a fact that matches, at most for bound.
func (k *kept) await(t *testing.T, what string, bound time.Duration, match func(history.Event) bool) history.Event {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(bound)
	for {
		if found := k.all(match); len(found) > 0 {
			return found[0]
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("waited %v for %s", bound, what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func said(node, name string, state history.ObserverState) func(history.Event) bool {
	return func(e history.Event) bool {
		return e.Observer != nil && e.Observer.Node == node && e.Observer.Name == name && e.Observer.State == state
	}
}

// TestRealCluster has both observers watch a cluster of which one node is hurt in every way that a node can be.
func TestRealCluster(t *testing.T) {
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: the observers on a real cluster; it needs a container engine and a node image: make e2e")
	}
	cluster, _ := kindtest.Cluster(t, log, kindtest.Shared("seatrial-dev-observe"), 1)
	ctx := t.Context()
	nodes, err := cluster.Nodes(ctx)
	must(t, err)
	worker := nodes[1].(clusters.PowerNode)

	binary, err := program.Agent().Find(ctx, log)
	must(t, err)
	for _, n := range nodes {
		begin := time.Now()
		done, err := nodefacts.Install(ctx, n, binary)
		must(t, err)
		t.Logf("install on %s: copied %t in %v: %s", n.Name(), done.Copied, time.Since(begin), done.On.Observer.Detail)
	}
	k := &kept{}
	watcher := watchAPI(t, cluster, k, log)
	tailer := nodefacts.Start(ctx, nodefacts.Config{Cluster: cluster, Nodes: nodes, Recorder: k, Log: log})
	first := k.await(t, "the ledger of the worker", 10*time.Second, said(worker.Name(), "mounts", history.ObserverOn))

	mountAndUnmount(t, k, worker, "/mnt/one")
	holdVolume(t, k, worker)
	restartLedger(t, k, worker)
	pauseNode(t, k, worker)
	rebootNode(t, k, worker, first.Observer.Boot)
	mountAndUnmount(t, k, worker, "/mnt/two")

	k.await(t, "a lease that is renewed", time.Minute, func(e history.Event) bool {
		return e.Object != nil && e.Object.Resource == "leases" && e.Object.Verb == history.VerbModified
	})
	begin := time.Now()
	tailer.Stop(ctx)
	watcher.Stop()
	t.Logf("stop: %v", time.Since(begin))
	for _, e := range k.all(said(worker.Name(), "mounts", history.ObserverLoss)) {
		t.Logf("loss: %+v %s", e.Span, e.Observer.Detail)
	}
	countFacts(t, k, nodes)
	compareLedger(t, k, worker)
	checkAPI(t, k)
}

func countFacts(t *testing.T, k *kept, nodes []clusters.Node) {
	t.Helper()
	for _, n := range nodes {
		attaches := k.all(func(e history.Event) bool {
			return e.Mount != nil && e.Mount.Node == n.Name() && e.Mount.Action == history.MountAttach
		})
		t.Logf("%s: %d attaches, %d losses, %d gaps", n.Name(), len(attaches),
			len(k.all(said(n.Name(), "mounts", history.ObserverLoss))),
			len(k.all(said(n.Name(), "mounts", history.ObserverGap))))
	}
}

func watchAPI(t *testing.T, cluster clusters.Cluster, k *kept, log *slog.Logger) *apiwatch.Watcher {
	t.Helper()
	data, err := cluster.Kubeconfig(t.Context())
	must(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	must(t, err)
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	watcher, err := apiwatch.Start(t.Context(), apiwatch.Config{
		Client: client, Namespace: "kube-system", Recorder: k, Log: log,
	})
	must(t, err)
	must(t, watcher.Ready(t.Context()))
	return watcher
}

func mountAndUnmount(t *testing.T, k *kept, node clusters.Node, path string) {
	t.Helper()
	for _, argv := range [][]string{{"mkdir", "-p", path}, {"mount", "-t", "tmpfs", "none", path}, {"umount", path}} {
		_, err := clusters.Run(t.Context(), node, argv...)
		must(t, err)
	}
	attach := k.await(t, "the mount at "+path, 10*time.Second, func(e history.Event) bool {
		m := e.Mount
		return m != nil && m.Node == node.Name() && m.Action == history.MountAttach && m.Path == path
	})
	k.await(t, "its end", 10*time.Second, func(e history.Event) bool {
		return e.Mount != nil && e.Mount.Action == history.MountDetach && e.Mount.MountID == attach.Mount.MountID
	})
	t.Logf("mount at %s: known to %v", path, attach.Span.Length())
}

// restartLedger kills the ledger; systemd starts it again, and it says for how long it was blind.
func restartLedger(t *testing.T, k *kept, node clusters.Node) {
	t.Helper()
	_, err := clusters.Run(t.Context(), node, "systemctl", "kill", "--signal=KILL", nodefacts.UnitName)
	must(t, err)
	gap := k.await(t, "the gap", 10*time.Second, said(node.Name(), "mounts", history.ObserverGap))
	t.Logf("ledger killed: blind for %v", gap.Span.Length())
	if gap.Span.Length() > 5*time.Second {
		t.Errorf("blind for %v", gap.Span.Length())
	}
}

func pauseNode(t *testing.T, k *kept, node clusters.PowerNode) {
	t.Helper()
	must(t, node.Pause(t.Context()))
	timer := time.NewTimer(3 * time.Second)
	<-timer.C
	must(t, node.Unpause(t.Context()))
	since := bootclock.Now()
	k.await(t, "a beat after the pause", 20*time.Second, func(e history.Event) bool {
		return said(node.Name(), "mounts", history.ObserverBeat)(e) && e.Span.NotBefore > since
	})
}

// rebootNode reboots the node and shows that the ledger of the new boot saw before the runtime and the kubelet ran.
func rebootNode(t *testing.T, k *kept, node clusters.PowerNode, boot string) {
	t.Helper()
	begin := bootclock.Now()
	must(t, node.Reboot(t.Context(), 10*time.Second))
	on := k.await(t, "the ledger after the reboot", 30*time.Second, func(e history.Event) bool {
		return said(node.Name(), "mounts", history.ObserverOn)(e) && e.Observer.Boot != boot && e.Span.NotAfter > begin
	})
	if !strings.Contains(on.Observer.Detail, "; before containerd, kubelet") {
		t.Errorf("after the reboot: %q", on.Observer.Detail)
	}
	started, ok := history.ParseBoot(on.Observer.Boot)
	if !ok {
		t.Fatalf("the boot's name is %q", on.Observer.Boot)
	}
	t.Logf("reboot: PID 1 at %v, ledger saw %v later: %s", on.Observer.Boot, on.Span.NotAfter.Sub(started),
		on.Observer.Detail)
	var report struct {
		Processes []struct {
			Name  string
			Start history.Time
		}
	}
	deadline := time.Now().Add(time.Minute)
	for len(report.Processes) < 2 && time.Now().Before(deadline) {
		out, err := clusters.Run(t.Context(), node, clusters.AgentPath, "probe", "process",
			"--program", "containerd", "--program", "kubelet")
		must(t, err)
		must(t, json.Unmarshal([]byte(out), &report))
	}
	for _, p := range report.Processes {
		t.Logf("reboot: %s started %v after the ledger saw", p.Name, p.Start.Sub(on.Span.NotAfter))
		if p.Start < on.Span.NotAfter-history.Time(10*time.Millisecond) {
			t.Errorf("%s started at %v, the ledger saw from %v on", p.Name, p.Start, on.Span.NotAfter)
		}
	}
	if len(report.Processes) < 2 {
		t.Errorf("a minute after the reboot there run %+v", report.Processes)
	}
	var last history.Time
	for _, e := range k.all(func(e history.Event) bool { return e.Source == "ledger/"+node.Name() }) {
		if e.Span.NotAfter < started {
			last = max(last, e.Span.NotAfter)
		}
	}
	t.Logf("reboot: asked for at %v, the last word of the boot before was %v ahead of PID 1", begin,
		started.Sub(last))
}

// compareLedger shows that what is on record is what the ledger holds, line by line, up to what it wrote after Stop.
func compareLedger(t *testing.T, k *kept, node clusters.Node) {
	t.Helper()
	out, err := clusters.Run(t.Context(), node, clusters.AgentPath, "tail", nodefacts.LedgerPath)
	must(t, err)
	lines := strings.FieldsFunc(out, func(r rune) bool { return r == '\n' })
	facts := k.all(func(e history.Event) bool { return e.Source == "ledger/"+node.Name() })
	t.Logf("%s: %d facts on record, %d lines in the ledger", node.Name(), len(facts), len(lines))
	if len(facts) > len(lines) {
		t.Fatalf("more facts than lines")
	}
	for i, e := range facts {
		line, err := json.Marshal(e)
		must(t, err)
		if string(line) != lines[i] {
			t.Fatalf("fact %d is\n%s\nand the ledger holds\n%s", i, line, lines[i])
		}
	}
}

// checkAPI shows that the API was watched: every resource on and off, with nothing missed between.
func checkAPI(t *testing.T, k *kept) {
	t.Helper()
	count := map[string]int{}
	var widest time.Duration
	for _, e := range k.all(func(e history.Event) bool { return e.Source == "api" }) {
		switch {
		case e.Object != nil:
			count[e.Object.Resource]++
			if e.Object.Verb != history.VerbListed {
				widest = max(widest, e.Span.Length())
			}
		case e.Observer.State == history.ObserverGap || e.Observer.State == history.ObserverLoss:
			t.Errorf("%s: %s: %s", e.Observer.Name, e.Observer.State, e.Observer.Detail)
		default:
			count[string(e.Observer.State)]++
		}
	}
	t.Logf("api: %v, widest span %v", count, widest)
	const resources = 10 // That are watched, each by an observer of its own.
	if count["off"] != resources || count["on"] < resources || count["nodes"] < 2 || count["pods"] < 5 {
		t.Errorf("api: %v, want %d observers on and off", count, resources)
	}
}
