package faulttest_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/network"
	"github.com/seatrial/seatrial/chaos/fault/node"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/check"
)

// sabotaged is a node on which the act of a fault does nothing: another program is run in its place, which takes it and
// ends well.
type sabotaged struct {
	clusters.Node
	act  []string // How the act begins.
	done *atomic.Int32
}

// Exec runs a command, or true in the place of the act.
func (s sabotaged) Exec(ctx context.Context, cmd clusters.Command) (clusters.Result, error) {
	if len(cmd.Argv) >= len(s.act) && slices.Equal(cmd.Argv[:len(s.act)], s.act) {
		s.done.Add(1)
		cmd.Argv = []string{"true"}
	}
	return s.Node.Exec(ctx, cmd)
}

// TestSabotageOnARealCluster has the act of a fault do nothing on a real node. The fault must say so, the verdict on a
// trial that is otherwise without a flaw must be UNKNOWN, and nothing may be left.
func TestSabotageOnARealCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: sabotaged faults on a real kind cluster; it needs an engine and a node image: make long")
	}
	target, nodes := realTarget(t, "seatrial-dev-sabotage")
	for _, tc := range []struct {
		def fault.Definition
		act []string
	}{
		{node.KubeletKill(), []string{"systemctl", "kill"}},
		{node.KubeletFreeze(), []string{"kill", "-s", "STOP"}},
		{node.RuntimeStop(), []string{"systemctl", "stop"}},
		{network.Partition(), []string{"nft", "-f"}},
		{network.Bandwidth(), []string{"tc", "qdisc", "add"}},
	} {
		t.Run(tc.def.Name, func(t *testing.T) {
			spec := plan.Fault{Name: tc.def.Name, Hold: plan.Duration(time.Second), Params: tc.def.Example}
			delete(spec.Params, "families")
			done := &atomic.Int32{}
			env := fault.Env{
				Cluster: target.Cluster, Kube: target.Kube, Pod: "none", Namespace: "kube-system",
				Node:  sabotaged{Node: nodes[len(nodes)-1], act: tc.act, done: done},
				RunID: "rsabotage-" + tc.def.Name, Clock: target.Clock, Log: target.Log, Watchdog: target.Watchdog,
			}
			r, err := faulttest.Run(t.Context(), tc.def, faulttest.Bench{Env: env, Spec: spec}, nil)
			var stage *fault.StageError
			if !errors.As(err, &stage) || stage.Stage != "confirm" || done.Load() == 0 {
				t.Fatalf("%d acts, and %v; want an error of confirm", done.Load(), err)
			}
			t.Log(err)
			got := judged(t, spec, r.Facts(), []check.Check{check.Coverage()})
			reasons := strings.Join(got.Results[0].Reasons, "\n")
			if got.Verdict != check.Unknown || !strings.Contains(reasons, tc.def.Name) {
				t.Errorf("%s: %q", got.Verdict, got.Results[0].Reasons)
			}
			reports, err := undo.Cluster(t.Context(), nodes, undo.Of(env.RunID, 0))
			for _, r := range reports {
				if err != nil || !r.Nothing() {
					t.Errorf("left on node %q: %s, %v", r.Node, r, err)
				}
			}
		})
	}
}
