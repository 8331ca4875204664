package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/evidence"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/history"
)

// lookEvery is how often the API is asked for what a step waits for.
const lookEvery = 200 * time.Millisecond

// enclosing is how things were when a step began within which others are carried out, or a change before them.
type enclosing struct {
	since history.Time
	pods  map[string]sighting // By their names.
	// open are the ends of the faults that outlast the one around them; nil where no fault is around.
	open *[]func(context.Context) error
}

// over ends the faults that have outlasted the one around them, the last one first.
func (in enclosing) over(ctx context.Context) error {
	var errs []error
	for _, end := range slices.Backward(*in.open) {
		errs = append(errs, end(ctx))
	}
	return errors.Join(errs...)
}

func (c *carrier) enclose(ctx context.Context) (enclosing, error) {
	in := enclosing{since: bootclock.Now(), pods: map[string]sighting{}, open: &[]func(context.Context) error{}}
	list, err := c.kube.CoreV1().Pods(c.namespace()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return in, fmt.Errorf("list pods: %w", err)
	}
	for _, p := range list.Items {
		in.pods[p.Name] = sightOfPod(p)
	}
	return in, nil
}

// await carries out a step that waits. In is the step that encloses it, base the last change before it.
func (c *carrier) await(ctx context.Context, s plan.Step, in, base enclosing) error {
	a := *s.Await
	pod := c.podName(a.Ordinal)
	if a.Moment() {
		return c.awaitMoment(ctx, a, base)
	}
	switch a.For {
	case plan.AwaitSettled:
		return c.workload.Converge(ctx, s.Bound.D())
	case plan.AwaitStill:
		return c.awaitStill(ctx, a.Lasting.D())
	case plan.AwaitCSIBegin, plan.AwaitCSIEnd:
		return c.awaitCall(ctx, a, pod, in)
	case plan.AwaitMoved:
		return await.Until(ctx, fmt.Sprintf("%s to be Ready on another node than %s", pod, in.pods[pod].node),
			lookEvery, s.Bound.D(), func(ctx context.Context) (bool, string, error) { return c.moved(ctx, pod, in) })
	case plan.AwaitNotReady:
		node := in.pods[pod].node
		return await.Until(ctx, fmt.Sprintf("node %s not to be Ready", node), lookEvery, s.Bound.D(),
			func(ctx context.Context) (bool, string, error) { return c.notReady(ctx, node) })
	}
	return fmt.Errorf("carry out step %d: nothing called %q can be awaited", s.N, a.For)
}

func (c *carrier) podName(ordinal int) string {
	return fmt.Sprintf("%s-%d", c.Plan.Workload.StatefulSet, ordinal)
}

// awaitCall waits for a CSI call, and tells how long after the fact it was seen.
func (c *carrier) awaitCall(ctx context.Context, a plan.Await, pod string, in enclosing) error {
	handle, err := evidence.VolumeHandle(ctx, c.kube, c.namespace(), pod)
	if err != nil {
		return err
	}
	end := a.For == plan.AwaitCSIEnd
	is := func(e arrival) bool {
		call := e.CSI
		return call.RPC == a.RPC && call.Volume == handle && call.End == end && e.Span.NotAfter >= in.since &&
			(!end || call.Code == "OK")
	}
	for {
		e, ok, moved := c.rec.call(is)
		if ok {
			late := e.at.Sub(e.Span.NotAfter)
			c.log.Info("call seen", "rpc", a.RPC, "node", e.CSI.Node, "volume", handle, "late", late)
			fmt.Fprintf(c.Progress, "%8s  %s on %s, known here %s later\n", c.sinceBegin(e.Span.NotAfter), a.RPC,
				e.CSI.Node, late.Round(100*time.Microsecond))
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("await %s of volume %q: not seen since %s: %w", a.RPC, handle,
				c.sinceBegin(in.since), context.Cause(ctx))
		}
	}
}

func (c *carrier) moved(ctx context.Context, pod string, in enclosing) (bool, string, error) {
	p, err := c.kube.CoreV1().Pods(c.namespace()).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return false, "", err
	}
	state := fmt.Sprintf("%s on node %q", p.Status.Phase, p.Spec.NodeName)
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
			return p.Spec.NodeName != in.pods[pod].node && p.DeletionTimestamp == nil, state + ", Ready", nil
		}
	}
	return false, state, nil
}

func (c *carrier) notReady(ctx context.Context, node string) (bool, string, error) {
	n, err := c.kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return false, "", err
	}
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status != corev1.ConditionTrue, "Ready is " + string(cond.Status), nil
		}
	}
	return true, "it has no condition Ready", nil
}
