package network

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/clusters"
)

// named is a node that can only tell its name.
type named struct {
	clusters.Node
	name string
}

func (n named) Name() string { return n.name }

// workers is a cluster of nodes n0, n1 and so on.
type workers struct {
	clusters.Cluster
	count int
}

func (w workers) Nodes(context.Context) (nodes []clusters.Node, err error) {
	for i := range w.count {
		nodes = append(nodes, named{name: fmt.Sprintf("n%d", i)})
	}
	return nodes, nil
}

// TestFromWhomANodeIsIsolated holds which nodes and pods a node is cut off from where the plan names no peer.
func TestFromWhomANodeIsIsolated(t *testing.T) {
	for _, c := range []struct{ name, pods, nodes, others, err string }{
		{name: "the others of its set", pods: "db-0:n0 db-1:n1 db-2:n2", nodes: "n1 n2", others: "db-1 db-2"},
		{name: "two on one node", pods: "db-0:n0 db-1:n1 db-2:n1", nodes: "n1", others: "db-1 db-2"},
		{name: "one on no node yet", pods: "db-0:n0 db-1: db-2:n2", nodes: "n2", others: "db-2"},
		{name: "pods of others", pods: "db-0:n0 db-1:n1 db-x:n2 dba-1:n3 1:n4", nodes: "n1", others: "db-1"},
		{name: "one beside it", pods: "db-0:n0 db-1:n1 db-2:n0", err: "db-0 and db-2 are both on it; name a peer"},
		{name: "alone", pods: "db-0:n0 web-1:n1", err: "no other pod of its StatefulSet is on a node"},
		{name: "too many", pods: "db-0:n0 db-1:n1 db-2:n2 db-3:n3 db-4:n4 db-5:n5", err: "pods are on 5 nodes"},
	} {
		kube := fake.NewClientset()
		for _, pod := range strings.Fields(c.pods) {
			name, node, _ := strings.Cut(pod, ":")
			if err := kube.Tracker().Add(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: node},
			}); err != nil {
				t.Fatal(err)
			}
		}
		s := &isolate{filtered: &filtered{Env: fault.Env{
			Cluster: workers{count: 6}, Kube: kube, Namespace: "ns", Pod: "db-0", Node: named{name: "n0"},
		}}}
		nodes, err := s.peers(t.Context())
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.err)
			}
			continue
		}
		var got []string
		for _, n := range nodes {
			got = append(got, n.Name())
		}
		if err != nil || strings.Join(got, " ") != c.nodes || strings.Join(s.pods, " ") != c.others {
			t.Errorf("%s: nodes %v, pods %v, %v; want %s and %s", c.name, got, s.pods, err, c.nodes, c.others)
		}
		// Wherever the pods go later, it is cut off from the same nodes.
		if err := kube.CoreV1().Pods("ns").Delete(t.Context(), s.pods[0], metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if again, err := s.peers(t.Context()); err != nil || len(again) != len(nodes) {
			t.Errorf("%s: a second time: %v, %v; want the same as first", c.name, again, err)
		}
	}
}
