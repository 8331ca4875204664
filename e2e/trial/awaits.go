package trial

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// lookEvery is how often the API is asked for what a step waits for.
const lookEvery = 200 * time.Millisecond

// enclosing is how things were when a step began within which others are carried out, or a change before them.
type enclosing struct {
	since history.Time
	pods  map[string]sighting // By their names.
	// open are the ends of the faults that outlast the one around them; nil where no fault is around.
	open *outlasting
}

func (c *runner) enclose(ctx context.Context) (enclosing, error) {
	in := enclosing{since: bootclock.Now(), pods: map[string]sighting{}, open: &outlasting{}}
	err := answered(ctx, "the pods to be listed", func(ctx context.Context) error {
		list, err := c.kube.CoreV1().Pods(c.namespace()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		for _, p := range list.Items {
			in.pods[p.Name] = sightOfPod(p)
		}
		return nil
	})
	return in, err
}

const (
	answerBound = 30 * time.Second // An API server that is started again takes some 10 s.
	askBound    = 5 * time.Second
)

// answered asks the API server until it answers: a fault may have taken it away a moment ago. An answer that it would
// give again, such as that something is not there, is one; one that was started a moment ago may forbid what it allows
// as soon as it has read its rules.
func answered(ctx context.Context, what string, ask func(context.Context) error) error {
	return await.Until(ctx, what, lookEvery, answerBound, func(ctx context.Context) (bool, string, error) {
		ctx, cancel := context.WithTimeout(ctx, askBound)
		defer cancel()
		err := ask(ctx)
		switch code := apierrors.ReasonForError(err); code {
		case metav1.StatusReasonNotFound, metav1.StatusReasonInvalid:
			return false, "", await.Stop(err)
		}
		return err == nil, "", err
	})
}

// coming is what was awaited and has come.
type coming struct {
	happened history.Span
	known    history.Time // When the harness knew of it.
	what     string
}

// await carries out a step that waits, and records how long after the fact the trial goes on. In is the step that
// encloses it, base the last change before it.
func (c *runner) await(ctx context.Context, s plan.Step, in, base enclosing) error {
	a := *s.Await
	var err error
	if in, base, err = c.from(ctx, a, in, base); err != nil {
		return err
	}
	seen, err := c.come(ctx, s, in, base)
	if err != nil {
		return err
	}
	if a.Delay > 0 {
		if err := await.For(ctx, a.Delay.D()); err != nil {
			return fmt.Errorf("wait for %s more, after %s: %w", a.Delay, seen.what, err)
		}
	}
	acted := bootclock.Now()
	c.record(history.KindAwait, history.At(acted), func(e *history.Event) {
		e.Await = &history.Await{Step: s.N, For: a.For, What: seen.what, Count: a.Count, Happened: seen.happened,
			Known: seen.known, Acted: acted}
	})
	late := seen.known.Sub(seen.happened.NotAfter)
	c.log.Info("awaited", "step", s.N, "for", a.For, "what", seen.what, "late", late,
		"acted", acted.Sub(seen.happened.NotAfter))
	fmt.Fprintf(c.Progress, "%8s  %s, known here %s later\n", c.sinceBegin(seen.happened.NotAfter), seen.what,
		late.Round(100*time.Microsecond))
	return nil
}

// from returns from when on what a step waits for counts, in place of what is around it.
func (c *runner) from(ctx context.Context, a plan.Await, in, base enclosing) (enclosing, enclosing, error) {
	switch a.Since {
	case plan.SinceTrial:
		at := enclosing{since: c.began}
		return at, at, nil
	case plan.SinceSteps:
		at := enclosing{since: c.stepsBegan}
		return at, at, nil
	case plan.SinceStep:
		at := enclosing{since: bootclock.Now()}
		if !a.Moment() {
			return at, at, nil
		}
		at, err := c.enclose(ctx)
		return at, at, err
	}
	return in, base, nil
}

// come waits until what a step waits for has come.
func (c *runner) come(ctx context.Context, s plan.Step, in, base enclosing) (coming, error) {
	a := *s.Await
	pod := c.podName(a.Ordinal)
	if a.Moment() {
		return c.awaitMoment(ctx, a, base)
	}
	switch a.For {
	case plan.AwaitCSIBegin, plan.AwaitCSIEnd:
		return c.awaitCall(ctx, a, pod, in)
	case plan.AwaitMount, plan.AwaitUnmount:
		return c.awaitMount(ctx, a, pod, base)
	case plan.AwaitObject:
		return c.awaitObject(ctx, s, base)
	case plan.AwaitCommits:
		return c.awaitCommits(ctx, a, base)
	case plan.AwaitFault:
		return c.awaitFault(ctx, a)
	case plan.AwaitTime:
		return c.awaitTime(ctx, a, base)
	}
	began := bootclock.Now()
	var what string
	var err error
	switch a.For {
	case plan.AwaitSettled:
		what, err = "the StatefulSet has settled", c.workload.Converge(ctx, s.Bound.D())
	case plan.AwaitStill:
		what, err = fmt.Sprintf("no pod stirred for %s", a.Lasting), c.awaitStill(ctx, a.Lasting.D())
	case plan.AwaitMoved:
		what = fmt.Sprintf("%s came up on another node than %s", pod, in.pods[pod].node)
		began, err = c.asking(ctx, what, s.Bound.D(), func(ctx context.Context) (bool, string, error) {
			return c.moved(ctx, pod, in)
		})
	case plan.AwaitNotReady:
		node := in.pods[pod].node
		what = fmt.Sprintf("node %s is not Ready", node)
		began, err = c.asking(ctx, what, s.Bound.D(), func(ctx context.Context) (bool, string, error) {
			return c.notReady(ctx, node)
		})
	default:
		err = fmt.Errorf("carry out step %d: nothing called %q can be awaited", s.N, a.For)
	}
	now := bootclock.Now()
	return coming{history.Between(began, now), now, what}, err
}

// asking asks the API again and again until something is so, and returns when it last was not.
func (c *runner) asking(ctx context.Context, what string, bound time.Duration, is await.Condition) (
	began history.Time, err error,
) {
	began = bootclock.Now()
	err = await.Until(ctx, what, lookEvery, bound, func(ctx context.Context) (bool, string, error) {
		asked := bootclock.Now()
		done, state, err := is(ctx)
		if err == nil && !done {
			began = asked
		}
		return done, state, err
	})
	return began, err
}

func (c *runner) podName(ordinal int) string {
	return fmt.Sprintf("%s-%d", c.Plan.Workload.StatefulSet, ordinal)
}

func (c *runner) moved(ctx context.Context, pod string, in enclosing) (bool, string, error) {
	p, err := c.kube.CoreV1().Pods(c.namespace()).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return false, "", err
	}
	state := fmt.Sprintf("%s on node %q", p.Status.Phase, p.Spec.NodeName)
	elsewhere := p.Spec.NodeName != in.pods[pod].node && p.DeletionTimestamp == nil
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodReady && cond.Status == corev1.ConditionTrue {
			return elsewhere, state + ", Ready", nil
		}
	}
	for _, container := range p.Status.ContainerStatuses {
		if container.RestartCount > 0 {
			return elsewhere, fmt.Sprintf("%s, and has ended there %d times", state, container.RestartCount), nil
		}
	}
	return false, state, nil
}

func (c *runner) notReady(ctx context.Context, node string) (bool, string, error) {
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

// awaitTime waits until so long after a moment. A time that is over already has come.
func (c *runner) awaitTime(ctx context.Context, a plan.Await, base enclosing) (coming, error) {
	due := base.since.Add(a.After.D())
	if rest := due.Sub(bootclock.Now()); rest > 0 {
		if err := await.For(ctx, rest); err != nil {
			return coming{}, fmt.Errorf("wait until %s: %w", c.sinceBegin(due), err)
		}
	}
	return coming{history.At(due), bootclock.Now(), fmt.Sprintf("%s after %s", a.After, c.sinceBegin(base.since))}, nil
}

// until waits until find finds what is awaited in what the feed has kept; seen is what it saw last.
func (c *runner) until(
	ctx context.Context, what string, since history.Time, find func() (found bool, seen string),
) error {
	seen := ""
	for {
		found, moved := c.rec.look(func() (found bool) {
			found, seen = find()
			return found
		})
		if found {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("await %s: not seen since %s, last seen: %s: %w", what, c.sinceBegin(since), seen,
				context.Cause(ctx))
		}
	}
}
