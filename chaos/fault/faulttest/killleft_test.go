package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/leaks"
	"github.com/seatrial/seatrial/chaos/undo"
	apiobjects "github.com/seatrial/seatrial/chaos/undo/apileaks"
	"github.com/seatrial/seatrial/clusters"
)

// left returns what a run has left on the victim's node, on the control-plane nodes and in the API, by its marks and
// their effects. It undoes nothing. It skips other workers, where other harnesses are killed meanwhile; see
// leftAnywhere.
func (m *matrix) left(ctx context.Context, on clusters.Node, run string) ([]string, error) {
	for _, n := range m.nodes {
		if n.Name() != on.Name() && n.Role() != clusters.RoleControlPlane {
			continue
		}
		if out, err := m.leftOn(ctx, n, run); err != nil || len(out) > 0 {
			return out, err
		}
	}
	if out, err := m.leftBeside(run); err != nil || len(out) > 0 {
		return out, err
	}
	return m.leftInAPI(ctx, run, on)
}

// leftBeside returns what runs with an id prefix have left outside of the cluster.
func (m *matrix) leftBeside(run string) ([]string, error) {
	return filepath.Glob(filepath.Join(m.watchdog.Dir, "seatrial-"+run+"*"))
}

// leftAnywhere does the same for all runs and every node, once no harness is killed any more.
func (m *matrix) leftAnywhere(ctx context.Context) ([]string, error) {
	out, err := m.leftInAPI(ctx, runPrefix, m.nodes...)
	beside, err2 := m.leftBeside(runPrefix)
	out, errs := append(out, beside...), []error{err, err2}
	for _, n := range m.nodes {
		found, err := m.leftOn(ctx, n, runPrefix)
		out, errs = append(out, found...), append(errs, err)
	}
	return out, errors.Join(errs...)
}

// leftOn returns what runs with an id prefix have left on one node, and services that do not run.
func (m *matrix) leftOn(ctx context.Context, n clusters.Node, run string) ([]string, error) {
	if power, ok := n.(clusters.PowerNode); ok {
		state, err := power.State(ctx)
		if err != nil || state != "running" {
			return []string{n.Name() + " is " + state}, err
		}
	}
	var out []string
	armed, err := undo.Armed(ctx, n, nil)
	for _, r := range armed {
		if strings.HasPrefix(r.Run, run) {
			out = append(out, n.Name()+": armed "+r.Owner.Name())
		}
	}
	if err != nil || len(out) > 0 {
		return out, err
	}
	units, err := clusters.Run(ctx, n, "systemctl", "list-units", "--all", "--full", "--plain", "--no-legend",
		"*"+run+"*", "kubelet.service", "containerd.service")
	if err != nil {
		return out, err
	}
	for line := range strings.Lines(units) {
		if strings.Contains(line, run) || !strings.Contains(line, " active ") {
			out = append(out, n.Name()+": unit "+strings.Join(strings.Fields(line), " "))
		}
	}
	now, err := thingsOn(ctx, n)
	for _, t := range ofRun(m.before[n.Name()], now, run) {
		out = append(out, n.Name()+": "+t)
	}
	return out, err
}

// thingsOn returns the agent's list of its node.
func thingsOn(ctx context.Context, n clusters.Node) ([]history.Thing, error) {
	report, err := leaks.Of(ctx, n)
	if err != nil {
		return nil, err
	}
	for _, b := range report.Blind {
		return nil, fmt.Errorf("what is left on node %q is not known: %s: %s", n.Name(), b.Class, b.Why)
	}
	return report.Things, nil
}

// ofRun lists what is new since an earlier list: things of runs with an id prefix, and unmarked things that no kubelet
// makes for pods.
func ofRun(before, now []history.Thing, run string) []string {
	unmarked := []string{history.ThingTable, history.ThingQdisc, history.ThingProcess, history.ThingFile}
	var out []string
	for _, t := range history.Left(before, now) {
		if ofOther(t, run) {
			continue
		}
		if t.Run != "" && strings.HasPrefix(t.Run, run) || t.Run == "" && slices.Contains(unmarked, t.Class) {
			out = append(out, t.String())
		}
	}
	return out
}

// ofOther reports whether a thing is a program of the control plane, and the run is one whose fault is about another:
// then that program's fault is beside it.
func ofOther(t history.Thing, run string) bool {
	if t.Class != history.ThingProcess || run == runPrefix {
		return false
	}
	for part, program := range map[string]string{ // As much of its name as the kernel keeps.
		"apiserver": "kube-apiserver", "etcd": "etcd", "manager": "kube-controller", "scheduler": "kube-scheduler",
	} {
		if strings.HasSuffix(t.Name, " "+program) {
			return !strings.Contains(run, part)
		}
	}
	return false
}

// leftInAPI returns objects with the run's mark, and leftovers on the given Nodes.
func (m *matrix) leftInAPI(ctx context.Context, run string, nodes ...clusters.Node) ([]string, error) {
	things, err := apiobjects.Look(ctx, m.kube, nil)
	out := ofRun(nil, things, run)
	for _, n := range nodes {
		node, failed := m.kube.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
		switch {
		case failed != nil:
			out = append(out, failed.Error())
		case node.Spec.Unschedulable:
			out = append(out, "Node "+n.Name()+" is unschedulable")
		}
	}
	return out, err
}
