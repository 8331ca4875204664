package faulttest_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/network"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/kind"
)

// TestNetworkFaultsOnARealCluster runs all checks of the network faults on a cluster of its own, and takes the cuts
// that are not whole through their lives.
func TestNetworkFaultsOnARealCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: network faults on a real kind cluster; it needs an engine and a node image: make long")
	}
	target, nodes := realTarget(t, "seatrial-dev-network")
	for _, tc := range []struct {
		name   string
		params plan.Params
	}{
		{"in", plan.Params{"direction": "in"}},
		{"out", plan.Params{"direction": "out"}},
		{"reject", plan.Params{"reject": true}},
		{"new", plan.Params{"flows": "new"}},
		{"established", plan.Params{"flows": "established"}},
	} {
		t.Run("partition-"+tc.name, func(t *testing.T) {
			def := network.Partition()
			spec := plan.Fault{Name: def.Name, Hold: plan.Duration(time.Second), Params: tc.params}
			env := fault.Env{
				Cluster: target.Cluster, Kube: target.Kube, Node: nodes[len(nodes)-1], Pod: "none", Namespace: "none",
				RunID: "r" + tc.name, Clock: target.Clock, Log: target.Log,
			}
			if _, err := faulttest.Run(t.Context(), def, faulttest.Bench{Env: env, Spec: spec}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all := slices.DeleteFunc(definitions(), func(d fault.Definition) bool {
		whole := slices.Contains([]string{"node-dark", "node-partition"}, d.Name)
		if !slices.Contains(d.Takes, plan.PartNetwork) && !whole {
			return true
		}
		reasons := kind.Capabilities().Lacks(d.Needs)
		for _, why := range reasons {
			t.Logf("left out: %s: %s", d.Name, why)
		}
		return len(reasons) > 0
	})
	if err := faulttest.OnCluster(t.Context(), all, target); err != nil {
		t.Error(err)
	}
}
