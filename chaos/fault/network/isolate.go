package network

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// Isolate cuts the victim's node off from the node of another pod of the workload, or from those of all others at once,
// with the rules of Partition. All these nodes still reach the control plane.
func Isolate() fault.Definition {
	return fault.Define(fault.Definition{
		Name: "node-isolate",
		Summary: "Cuts the victim's node off from the node of another pod of the workload, or of all others, IPv4 " +
			"and IPv6.",
		Shown: "No probe connects between the victim and such a node over any family, no echo request between the " +
			"pods is answered, if some were before, established flows go dead, and both ways between the victim and " +
			"the control plane are open; only the one to it, where that is on no node.",
		Healed:   "The nftables table is deleted; all probes connect, the lease is renewed, and the node is Ready.",
		Needs:    []string{"nftables", "systemd"},
		Takes:    []plan.Part{plan.PartNetwork},
		Upstream: "cloudnative-pg#7407",
		Example:  plan.Params{"peer": 1},
	}, newIsolate)
}

// isolateParams are those of betweenParams; without a peer, the victim is cut off from all others of its set.
type isolateParams struct {
	packets
	Peer *int `json:"peer,omitempty"` // The other pod's ordinal; all others without one.
}

func (p isolateParams) Other() *int { return p.Peer }

func (p isolateParams) Validate(s plan.Setting) (errs plan.FieldErrors) {
	if p.Peer != nil {
		return betweenParams(p).Validate(s)
	}
	p.validate(&errs)
	if s.Pods < 2 {
		errs.Add("peer", "scale up before it", "there is no other pod at this step")
	}
	return errs
}

func newIsolate(p isolateParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
	if env.PeerNode != nil && env.PeerNode.Name() == env.Node.Name() {
		return nil, fmt.Errorf("isolate node %q: %s and %s are both on it; choose another peer, or use pod-partition",
			env.Node.Name(), env.Pod, env.Peer)
	}
	s := &isolate{filtered: &filtered{Env: env, rules: filter{packets: p.packets}, rejoins: true}}
	s.find = func(ctx context.Context) (sides, error) {
		nodes, err := s.peers(ctx)
		if err != nil {
			return sides{}, err
		}
		found, err := between(ctx, env, nodes)
		if err != nil {
			return found, err
		}
		open := sides{mine: found.mine}
		if open.others, err = controlPlane(ctx, env); err != nil {
			return found, err
		}
		for _, w := range open.ways() {
			w.direction = ""
			found.beside = append(found.beside, w)
		}
		return found, nil
	}
	return s, nil
}

// peers returns the nodes to cut off from, those of when they were first looked for, as pods may go elsewhere.
func (s *isolate) peers(ctx context.Context) ([]clusters.Node, error) {
	switch {
	case len(s.nodes) > 0:
		return s.nodes, nil
	case s.PeerNode != nil:
		s.pods, s.nodes = []string{s.Peer}, []clusters.Node{s.PeerNode}
		return s.nodes, nil
	}
	pods, err := s.Kube.CoreV1().Pods(s.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the pods to isolate %q from: %w", s.Pod, err)
	}
	set := s.Pod[:strings.LastIndexByte(s.Pod, '-')+1]
	on, there := map[string]bool{}, []string(nil)
	for _, pod := range pods.Items {
		ordinal, found := strings.CutPrefix(pod.Name, set)
		if _, err := strconv.ParseUint(ordinal, 10, 32); !found || err != nil || pod.Name == s.Pod {
			continue
		}
		switch pod.Spec.NodeName {
		case "":
			continue
		case s.Node.Name():
			return nil, fmt.Errorf("isolate node %q: %s and %s are both on it; name a peer elsewhere",
				s.Node.Name(), s.Pod, pod.Name)
		}
		on[pod.Spec.NodeName] = true
		there = append(there, pod.Name)
	}
	others, err := s.Others(ctx)
	others = slices.DeleteFunc(others, func(n clusters.Node) bool { return !on[n.Name()] })
	switch {
	case err != nil:
		return nil, err
	case len(others) == 0:
		return nil, fmt.Errorf("isolate node %q: no other pod of its StatefulSet is on a node", s.Node.Name())
	case len(others) > farEnds:
		return nil, fmt.Errorf("isolate node %q: the other pods are on %d nodes, and a cut from %d can be shown; "+
			"name a peer", s.Node.Name(), len(others), farEnds)
	}
	s.pods, s.nodes = there, others
	return others, nil
}

// isolate also shows the cut between the pods.
type isolate struct {
	*filtered
	pods  []string        // The others.
	nodes []clusters.Node // Theirs; both nil until they were looked for.
}

// Inject finds out which ways between the pods are open, and cuts.
func (s *isolate) Inject(ctx context.Context) error {
	if _, err := s.peers(ctx); err != nil {
		return err
	}
	s.notePods(ctx, func(mine end) ([]way, error) {
		between := sides{mine: mine}
		for _, pod := range s.pods {
			other, err := podEnd(ctx, s.Env, s.Namespace, pod)
			if err != nil {
				return nil, err
			}
			between.others = append(between.others, other)
		}
		return between.ways(), nil
	})
	return s.filtered.Inject(ctx)
}

func (s *isolate) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, s.filtered.Confirm, s.podsCut)
}
