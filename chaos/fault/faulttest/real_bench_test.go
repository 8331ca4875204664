package faulttest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// timesOfABenchmark is how often an operation does what it measures: enough for a 99th percentile.
const timesOfABenchmark = 100

// benchRun is the run that the benchmarks' tables are of.
const benchRun = "rbench"

// benchNode makes a cluster for a benchmark, where there is what it needs, and returns a worker.
func benchNode(b *testing.B) clusters.Node {
	b.Helper()
	if os.Getenv("SEATRIAL_E2E") != "1" || os.Getenv("SEATRIAL_NODE_IMAGE") == "" {
		b.Skip("NOT RUN: faults of a real node; it needs an engine and a node image: make bench")
	}
	_, nodes := realTarget(b, "seatrial-dev-bench")
	return nodes[len(nodes)-1]
}

// BenchmarkRealNode has one cluster for what is measured on a real node.
func BenchmarkRealNode(b *testing.B) {
	n := benchNode(b)
	b.Run("kubelet-kill", func(b *testing.B) { benchmarkKubeletKill(b, n) })
	b.Run("dead-man", func(b *testing.B) { benchmarkDeadMan(b, n) })
}

// benchmarkKubeletKill measures how late a kubelet that gets SIGKILL is seen to be gone, after the command was given
// (target: 250 ms in the 99th percentile). The command and the look go through the container runtime, as those of the
// fault do.
func benchmarkKubeletKill(b *testing.B, n clusters.Node) {
	ctx := b.Context()
	for b.Loop() {
		var late, command []time.Duration
		for range timesOfABenchmark {
			pid := servingKubelet(b, n, 0)
			begin := bootclock.Now()
			if _, err := clusters.Run(ctx, n, "systemctl", "kill", "-s", "KILL", "kubelet"); err != nil {
				b.Fatal(err)
			}
			command = append(command, bootclock.Now().Sub(begin))
			for {
				if found := lookFor(b, n, pid); len(found.Processes) == 0 {
					late = append(late, found.At.Sub(begin))
					break
				}
			}
			servingKubelet(b, n, pid)
		}
		percentiles(b, "seen", late)
		percentiles(b, "command", command)
	}
}

// servingKubelet waits until there is a kubelet that says it is healthy, and not the one that was killed, and returns
// its pid. One that is just starting takes a core, and is not what anybody kills.
func servingKubelet(b *testing.B, n clusters.Node, old int) (pid int) {
	b.Helper()
	err := await.Until(b.Context(), "a kubelet to serve", 200*time.Millisecond, time.Minute,
		func(ctx context.Context) (bool, string, error) {
			u, err := fault.ReadUnit(ctx, n, "kubelet")
			pid = u.PID
			if err != nil || !u.Running() || u.PID == old {
				return false, u.State, err
			}
			says, err := clusters.Run(ctx, n, "curl", "-fsS", "--max-time", "2", "http://127.0.0.1:10248/healthz")
			return err == nil && says == "ok", says, err
		})
	if err != nil {
		b.Fatal(err)
	}
	return pid
}

func lookFor(b *testing.B, n clusters.Node, pid int) probe.Processes {
	b.Helper()
	out, err := clusters.Run(b.Context(), n, nodeagent.Path, "probe", "process", "--pid", strconv.Itoa(pid))
	if err != nil {
		b.Fatal(err)
	}
	var found probe.Processes
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		b.Fatal(err)
	}
	return found
}

// benchmarkDeadMan measures how late a node has healed itself, when no harness is there (target: 100 ms in the 99th
// percentile): a table of nftables is to be taken away by the timer of its owner. Systemd says when the timer began,
// and the kernel when the table went.
func benchmarkDeadMan(b *testing.B, n clusters.Node) {
	const life = 3 * time.Second
	for b.Loop() {
		gone := tablesGone(b, n)
		due := map[string]history.Time{}
		for i := range timesOfABenchmark {
			owner := undo.Owner{Run: benchRun, Step: i + 1}
			table := fmt.Sprintf("add table inet %s\n", owner.Table())
			if _, err := undo.On(n)(b.Context(), []string{"nft", "-f", "-"}, table); err != nil {
				b.Fatal(err)
			}
			if err := undo.Arm(
				b.Context(),
				undo.Task{Node: n, Actions: []undo.Action{undo.DeleteTable(owner)}},
				owner,
				life,
			); err != nil {
				b.Fatal(err)
			}
			due[owner.Table()] = began(b, n, owner).Add(life)
		}
		var late []time.Duration
		for range timesOfABenchmark {
			select {
			case g := <-gone:
				late = append(late, g.at.Sub(due[g.table]))
			case <-time.After(time.Minute):
				b.Fatalf("%d tables are gone after a minute", len(late))
			}
		}
		percentiles(b, "late", late)
	}
}

// departure is a table that the kernel has taken away, and when that was heard.
type departure struct {
	table string
	at    history.Time
}

// ours reports whether a table is one of the benchmark's: others come and go as well.
func ours(table string) bool {
	owner, ok := undo.FromTable(table)
	return ok && owner.Run == benchRun
}

// tablesGone listens to what the kernel says of tables on a node.
func tablesGone(b *testing.B, n clusters.Node) <-chan departure {
	b.Helper()
	read, write := io.Pipe()
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := n.Exec(ctx, clusters.Command{Argv: []string{"nft", "monitor", "destroy", "tables"}, Stdout: write})
		write.CloseWithError(err)
	}()
	b.Cleanup(func() {
		stop()
		<-ended
	})
	gone := make(chan departure, 2*timesOfABenchmark)
	go func() {
		defer close(gone)
		for lines := bufio.NewScanner(read); lines.Scan(); { // For example "delete table inet seatrial_rbench_1".
			if word := strings.Fields(lines.Text()); len(word) == 4 && word[1] == "table" && ours(word[3]) {
				gone <- departure{word[3], bootclock.Now()}
			}
		}
	}()
	return gone
}

// began returns when a timer was started, as systemd has it.
func began(b *testing.B, n clusters.Node, owner undo.Owner) history.Time {
	b.Helper()
	out, err := clusters.Run(b.Context(), n, "systemctl", "show", owner.Timer(), "--value",
		"--property=ActiveEnterTimestampMonotonic")
	if err != nil {
		b.Fatal(err)
	}
	micros, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if err != nil || micros == 0 {
		b.Fatalf("the timer began at %q: %v", out, err)
	}
	var monotonic unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic); err != nil {
		b.Fatal(err)
	}
	asleep := bootclock.Now() - history.Time(monotonic.Nano())
	return history.Time(micros*1000) + asleep
}

// percentiles reports the median, the 99th percentile and the greatest of what was measured, in milliseconds. A
// percentile is the least value that so many of a hundred are not above.
func percentiles(b *testing.B, name string, all []time.Duration) {
	b.Helper()
	slices.Sort(all)
	for at, value := range map[string]time.Duration{
		"p50": all[(len(all)*50+99)/100-1], "p99": all[(len(all)*99+99)/100-1], "max": all[len(all)-1],
	} {
		b.ReportMetric(float64(value)/1e6, name+"-"+at+"-ms")
	}
}
