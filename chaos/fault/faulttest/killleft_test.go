package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/heal"
	"github.com/seatrial/seatrial/chaos/mark"
	"github.com/seatrial/seatrial/clusters"
)

// left returns what a run has left on the victim's node, on those of the control plane and in the API, by its marks and
// by what they stand for. It undoes nothing. On the other workers others are killed meanwhile; see leftAnywhere.
func (m *matrix) left(ctx context.Context, on clusters.Node, run string) ([]string, error) {
	for _, n := range m.nodes {
		if n.Name() != on.Name() && n.Role() != clusters.RoleControlPlane {
			continue
		}
		if out, err := leftOn(ctx, n, run); err != nil || len(out) > 0 {
			return out, err
		}
	}
	if out, err := m.leftBeside(run); err != nil || len(out) > 0 {
		return out, err
	}
	return m.leftInAPI(ctx, run)
}

// leftBeside looks for what runs have left beside the cluster whose ids begin so.
func (m *matrix) leftBeside(run string) ([]string, error) {
	return filepath.Glob(filepath.Join(m.dogs.Dir, "seatrial-"+run+"*"))
}

// leftAnywhere does the same for all runs and on every node, when nothing is killed any more.
func (m *matrix) leftAnywhere(ctx context.Context) ([]string, error) {
	out, err := m.leftInAPI(ctx, runPrefix)
	beside, err2 := m.leftBeside(runPrefix)
	out, errs := append(out, beside...), []error{err, err2}
	for _, n := range m.nodes {
		found, err := leftOn(ctx, n, runPrefix)
		out, errs = append(out, found...), append(errs, err)
	}
	return out, errors.Join(errs...)
}

// leftOn looks at one node for what runs have left whose ids begin so, and for services that do not run.
func leftOn(ctx context.Context, n clusters.Node, run string) ([]string, error) {
	if power, ok := n.(clusters.PowerNode); ok {
		state, err := power.State(ctx)
		if err != nil || state != "running" {
			return []string{n.Name() + " is " + state}, err
		}
	}
	var out []string
	seen := func(o mark.Owner) bool {
		if strings.HasPrefix(o.Run, run) {
			out = append(out, n.Name()+": mark "+o.Name())
		}
		return false
	}
	if _, err := heal.Node(ctx, heal.On(n), seen); err != nil || len(out) > 0 {
		return out, err
	}
	for _, look := range []struct {
		argv []string
		odd  func(line string) bool
	}{
		{[]string{"systemctl", "list-units", "--all", "--full", "--plain", "--no-legend", "*" + run + "*",
			"kubelet.service", "containerd.service"},
			func(line string) bool { return strings.Contains(line, run) || !strings.Contains(line, " active ") }},
		{[]string{"ps", "-eo", "pid=,stat=,comm="},
			func(line string) bool { return strings.HasPrefix(strings.Fields(line + " - -")[1], "T") }},
		{[]string{"find", "/etc", "/run", "/tmp", "/var/lib/seatrial", "-xdev", "-ignore_readdir_race",
			"-name", "*" + run + "*"},
			func(string) bool { return true }},
	} {
		said, err := clusters.Run(ctx, n, look.argv...)
		if err != nil {
			return out, err
		}
		for line := range strings.Lines(said) {
			if look.odd(line) {
				out = append(out, n.Name()+": "+look.argv[0]+": "+strings.Join(strings.Fields(line), " "))
			}
		}
	}
	return out, nil
}

// leftInAPI looks for objects and fields that bear the run's mark.
func (m *matrix) leftInAPI(ctx context.Context, run string) ([]string, error) {
	var out []string
	nodes, err := m.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if len(nodes.Items) != len(m.nodes) {
		out = append(out, fmt.Sprintf("%d Nodes of %d", len(nodes.Items), len(m.nodes)))
	}
	for _, n := range nodes.Items {
		for key, value := range n.Annotations {
			if o, ok := mark.FromName(value); ok && strings.HasPrefix(o.Run, run) {
				out = append(out, "annotation "+key+" of Node "+n.Name)
			}
		}
	}
	quotas, err := m.kube.CoreV1().ResourceQuotas("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return out, err
	}
	for _, q := range quotas.Items {
		if o, ok := mark.FromName(q.Name); ok && strings.HasPrefix(o.Run, run) {
			out = append(out, "ResourceQuota "+q.Name)
		}
	}
	return out, nil
}
