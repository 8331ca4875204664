package main

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/existing"
	"github.com/seatrial/seatrial/clusters/kind/kindtest"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// firstFault has one fault, as early as it can be.
const firstFault = `{
  "schema": 1, "scenario": "first-fault", "seed": 1, "workers": 2,
  "workload": {"name": "light", "statefulSet": "light", "replicas": 2, "fileSystem": "ext4", "volumeMiB": 16,
    "clients": 0, "interval": "0s", "quietRows": 0, "light": true},
  "bounds": {"ready": "3m0s", "settle": "3m0s", "blindGap": "5s", "minOps": 0, "minAround": 0},
  "steps": [{"n": 1, "do": "fault", "fault": {"name": "kubelet-kill", "ordinal": 0, "hold": "1s"}, "bound": "3m0s"}]
}`

// BenchmarkByKubeconfig compares a kind cluster used through its engine with the same cluster used by its kubeconfig.
func BenchmarkByKubeconfig(b *testing.B) {
	if os.Getenv("SEATRIAL_E2E") != "1" || os.Getenv("SEATRIAL_NODE_IMAGE") == "" {
		b.Skip("NOT RUN: a real cluster; it needs an engine and a node image: make bench")
	}
	name := kindtest.Shared("seatrial-dev-bench")
	c, _ := kindtest.Cluster(b, slog.New(slog.DiscardHandler), name, 2)
	config, err := c.Kubeconfig(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	kubeconfig := filepath.Join(b.TempDir(), "kubeconfig") // A cluster that was kept has none where one is made.
	if err := os.WriteFile(kubeconfig, config, 0o600); err != nil {
		b.Fatal(err)
	}
	b.Run("command", func(b *testing.B) { benchmarkCommand(b, c, kubeconfig) })
	b.Run("first-fault", func(b *testing.B) { benchmarkFirstFault(b, name, kubeconfig) })
}

// benchmarkCommand measures one command on a node: by the engine's exec, and by the agent's unit, channel B. They take
// turns, so that another load on the machine hits both.
func benchmarkCommand(b *testing.B, c clusters.Cluster, kubeconfig string) {
	ctx := b.Context()
	p, err := existing.New(existing.Options{Kubeconfig: kubeconfig, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	far, err := p.Open(ctx, "")
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := far.(clusters.Closer).Close(ctx); err != nil {
			b.Error(err)
		}
	}()
	var took [2][]time.Duration
	for b.Loop() {
		for i, c := range []clusters.Cluster{c, far} {
			nodes, err := c.Nodes(ctx)
			if err != nil {
				b.Fatal(err)
			}
			begun := time.Now()
			if _, err := clusters.Run(ctx, nodes[len(nodes)-1], "true"); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(begun))
		}
	}
	engine, agent := median(took[0]), median(took[1])
	b.ReportMetric(0, "ns/op") // Of both together: says nothing.
	b.ReportMetric(float64(engine)/1e6, "engine-ms")
	b.ReportMetric(float64(agent)/1e6, "channel-B-ms")
	b.ReportMetric(float64(agent)/float64(engine), "channel-B/engine")
}

// benchmarkFirstFault measures how long it takes from the start of `seatrial run` until the first fault is injected,
// with the cluster there already and a workload without a database.
func benchmarkFirstFault(b *testing.B, name, kubeconfig string) {
	file := filepath.Join(b.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(firstFault), 0o600); err != nil {
		b.Fatal(err)
	}
	var took [2][]time.Duration
	for b.Loop() {
		for i, to := range [][]string{
			{"--cluster", name, "--reuse", "--keep", "--yes"},
			{"--kubeconfig", kubeconfig, "--yes-context", "kind-" + name},
		} {
			took[i] = append(took[i], untilFault(b, file, to))
		}
	}
	engine, far := median(took[0]), median(took[1])
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(engine.Seconds(), "engine-s")
	b.ReportMetric(far.Seconds(), "kubeconfig-s")
	b.ReportMetric(float64(far)/float64(engine), "kubeconfig/engine")
}

// untilFault runs a plan, and returns how long after the start of the program its first fault was injected.
func untilFault(b *testing.B, file string, to []string) time.Duration {
	b.Helper()
	runs := b.TempDir()
	args := append([]string{"run", "--plan", file, "--runs", runs}, to...)
	begun := bootclock.Now()
	if out, err := exec.CommandContext(b.Context(), "../../bin/seatrial", args...).CombinedOutput(); err != nil {
		b.Fatalf("seatrial %q: %v\n%s", args, err, out)
	}
	found, err := filepath.Glob(filepath.Join(runs, "*", "*", "run.json"))
	if err != nil || len(found) != 1 {
		b.Fatalf("run directories: %q, %v", found, err)
	}
	dir, err := rundir.Open(filepath.Dir(found[0]))
	if err != nil {
		b.Fatal(err)
	}
	h, err := dir.ReadHistory()
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range h.Events {
		if e.Fault != nil && e.Fault.Stage == history.StageInjected {
			return e.Span.NotAfter.Sub(begun)
		}
	}
	b.Fatal("no fault was injected")
	return 0
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
