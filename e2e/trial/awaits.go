package trial

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
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
	pods  map[string]*podState // By their names.
	// open are the ends of the faults that outlast the one around them; nil where no fault is around.
	open *outlasting
}

func (c *runner) enclose(ctx context.Context) (enclosing, error) {
	in := enclosing{since: bootclock.Now(), pods: map[string]*podState{}, open: &outlasting{}}
	err := answered(ctx, "the pods to be listed", func(ctx context.Context) error {
		list, err := c.kube.CoreV1().Pods(c.namespace()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list pods: %w", err)
		}
		for _, p := range list.Items {
			in.pods[p.Name] = stateOf(&p.ObjectMeta, &p.Spec, &p.Status)
		}
		return nil
	})
	return in, err
}

// node returns the node that a pod was on, empty if it was on none.
func (in enclosing) node(pod string) string {
	if p := in.pods[pod]; p != nil {
		return p.node
	}
	return ""
}

const (
	answerBound = 30 * time.Second // A restarted API server takes some 10 s.
	askBound    = 5 * time.Second
)

// answered asks the API server until it answers: a fault may have taken it away a moment ago. NotFound and Invalid are
// answers. Forbidden is none: a server that has just started forbids everything until it has read its rules.
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

// come waits until what a step waits for has come: facts in the feed, or what the API server is asked for.
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
		return c.awaitObject(ctx, a, base)
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
		what, err = "the StatefulSet has settled", c.set.Converge(ctx, s.Bound.D())
	case plan.AwaitStill:
		what, err = fmt.Sprintf("no pod stirred for %s", a.Lasting), c.awaitStill(ctx, a.Lasting.D())
	case plan.AwaitMoved:
		node := in.node(pod)
		what = fmt.Sprintf("%s came up on another node than %s", pod, node)
		began, err = c.asking(ctx, what, s.Bound.D(), func(ctx context.Context) (bool, string, error) {
			return c.moved(ctx, pod, node)
		})
	case plan.AwaitNotReady:
		node := in.node(pod)
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

// until hands the facts of the feed to match, in their order and from the first on, until it has matched count of them
// (0 means 1), and returns the last of these. Match also says what it saw, empty where a fact is of no concern.
func (c *runner) until(
	ctx context.Context, what string, since history.Time, count int, match func(arrival) (bool, string),
) (arrival, error) {
	last, next := "nothing of the kind", 0
	for {
		more, moved := c.rec.after(next)
		for _, a := range more {
			next++
			ok, seen := match(a)
			if seen != "" {
				last = seen
			}
			if !ok {
				continue
			}
			if count--; count <= 0 {
				return a, nil
			}
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return arrival{}, fmt.Errorf("await %s: not seen since %s, last seen: %s: %w", what, c.sinceBegin(since),
				last, context.Cause(ctx))
		}
	}
}

// rising turns the state of objects into the moments at which each, by its uid, comes into it.
func rising() func(uid string, is bool) bool {
	was := map[string]bool{}
	return func(uid string, is bool) bool {
		rises := is && !was[uid]
		was[uid] = is
		return rises
	}
}

// asked is the revision of the pod template that was last asked for.
func (c *runner) asked() string {
	if name := c.revision.Load(); name != nil {
		return *name
	}
	return plan.RevisionFirst
}

// awaitMoment waits for a moment on the API watch. What the same object was by base already is none.
func (c *runner) awaitMoment(ctx context.Context, a plan.Await, base enclosing) (coming, error) {
	pod := c.podName(a.Ordinal)
	begun := base.pods[pod]
	rises := rising()
	state := ""
	e, err := c.until(ctx, fmt.Sprintf("%q of %s", a.For, pod), base.since, a.Count,
		func(e arrival) (bool, string) {
			is := e.Span.NotAfter >= base.since
			switch {
			case e.Object == nil:
				return false, ""
			case a.For == plan.AwaitClaimGone:
				// The controller names a claim <template>-<pod>.
				if e.Object.Resource != claims || !strings.HasSuffix(e.Object.Name, "-"+pod) {
					return false, ""
				}
				is = is && e.Object.Verb == history.VerbDeleted
				state = fmt.Sprintf("%s (uid %s) %s", e.Object.Name, e.Object.UID, e.Object.Verb)
			case e.pod == nil || e.Object.Name != pod:
				return false, ""
			default:
				already := begun != nil && e.pod.uid == begun.uid && begun.is(a.For, c.asked())
				is = is && e.pod.is(a.For, c.asked()) && !already
				state = fmt.Sprintf("%s %s", pod, e.pod)
			}
			return rises(e.Object.UID, is), state
		})
	return coming{e.Span, e.at, fmt.Sprintf("%s: %s", a.For, state)}, err
}

// awaitCall waits for a CSI call.
func (c *runner) awaitCall(ctx context.Context, a plan.Await, pod string, in enclosing) (coming, error) {
	v, err := c.volume(ctx, pod)
	if err != nil {
		return coming{}, err
	}
	end, word := a.For == plan.AwaitCSIEnd, "began"
	if end {
		word = "ended"
	}
	what := fmt.Sprintf("%s of volume %q", a.RPC, v.handle)
	e, err := c.until(ctx, what, in.since, a.Count, func(e arrival) (bool, string) {
		call := e.CSI
		if call == nil || call.Volume != v.handle {
			return false, ""
		}
		is := call.RPC == a.RPC && call.End == end && e.Span.NotAfter >= in.since && (!end || call.Code == "OK")
		return is, strings.TrimSpace(fmt.Sprintf("%s on %s %s", call.RPC, call.Node, call.Code))
	})
	if err != nil {
		return coming{}, err
	}
	return coming{e.Span, e.at, fmt.Sprintf("%s on %s %s", a.RPC, e.CSI.Node, word)}, nil
}

// awaitMount waits until a volume is mounted on a node, or a mount of it ends.
func (c *runner) awaitMount(ctx context.Context, a plan.Await, pod string, base enclosing) (coming, error) {
	v, err := c.volume(ctx, pod)
	if err != nil {
		return coming{}, err
	}
	action := history.MountDetach
	if a.For == plan.AwaitMount {
		action = history.MountAttach
	}
	what := fmt.Sprintf("a %s of PersistentVolume %q", a.For, v.pv)
	e, err := c.until(ctx, what, base.since, a.Count, func(e arrival) (bool, string) {
		if e.Mount == nil || !v.at(e.path, a.Place) {
			return false, ""
		}
		return e.Mount.Action == action && e.Span.NotAfter >= base.since,
			fmt.Sprintf("%s at %s on %s", e.Mount.Action, e.path, e.Mount.Node)
	})
	if err != nil {
		return coming{}, err
	}
	return coming{e.Span, e.at, fmt.Sprintf("%s of %s on %s, at %s", a.For, v.pv, e.Mount.Node, e.path)}, nil
}

// awaitObject waits until an object comes to match.
func (c *runner) awaitObject(ctx context.Context, a plan.Await, base enclosing) (coming, error) {
	matcher, err := a.Object.Compile()
	if err != nil {
		return coming{}, fmt.Errorf("await %s: %w", a.Object, err)
	}
	rises := rising()
	e, err := c.until(ctx, a.Object.String(), base.since, a.Count, func(e arrival) (bool, string) {
		o := e.Object
		if o == nil || !matcher.Of(o.Resource, o.Name) {
			return false, ""
		}
		holds := matcher.Holds(o.Raw, o.Verb == history.VerbDeleted)
		return rises(o.UID, holds) && e.Span.NotAfter >= base.since, fmt.Sprintf("%s, matching: %t", o.Name, holds)
	})
	if err != nil {
		return coming{}, err
	}
	return coming{e.Span, e.at, fmt.Sprintf("%s: %s", a.Object, e.Object.Name)}, nil
}

// awaitCommits waits until so many inserts were acknowledged since a moment.
func (c *runner) awaitCommits(ctx context.Context, a plan.Await, base enclosing) (coming, error) {
	n := 0
	e, err := c.until(ctx, fmt.Sprintf("%d commits", a.Commits), base.since, a.Commits,
		func(e arrival) (bool, string) {
			if e.Op == nil || e.Span.NotAfter < base.since {
				return false, ""
			}
			n++
			return true, fmt.Sprintf("%d since then", n)
		})
	return coming{e.Span, e.at, fmt.Sprintf("commit %d since %s", a.Commits, c.sinceBegin(base.since))}, err
}

// awaitFault waits until the fault of another step has come to a stage.
func (c *runner) awaitFault(ctx context.Context, a plan.Await) (coming, error) {
	stage := history.FaultStage(a.Stage)
	if stage == "" {
		stage = history.StageConfirmed
	}
	what := fmt.Sprintf("stage %q of the fault of step %d", stage, a.Step)
	e, err := c.until(ctx, what, c.stepsBegan, 1, func(e arrival) (bool, string) {
		if e.Fault == nil || e.Fault.Step != a.Step {
			return false, ""
		}
		return e.Fault.Stage == stage || e.Fault.Stage == history.StageFaultFailed, "stage " + string(e.Fault.Stage)
	})
	if err != nil {
		return coming{}, err
	}
	if e.Fault.Stage != stage {
		return coming{}, fmt.Errorf("await %s: it failed: %s", what, e.Fault.Error)
	}
	return coming{e.Span, e.at, fmt.Sprintf("the fault of step %d, %s on %s, is %s", a.Step, e.Fault.Name, e.Fault.Node,
		stage)}, nil
}

// awaitStill waits until no pod has stirred for so long, from now on.
func (c *runner) awaitStill(ctx context.Context, lasting time.Duration) error {
	begin := bootclock.Now()
	for {
		stirred, moved := c.rec.lastStir()
		rest := lasting - bootclock.Now().Sub(max(begin, stirred))
		if rest <= 0 {
			return nil
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-moved:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("await that no pod stirs for %s: the last did at %s: %w", lasting, c.sinceBegin(stirred),
				context.Cause(ctx))
		}
		timer.Stop()
	}
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

// moved reports that a pod is up on another node: Ready, or it has ended there at least once.
func (c *runner) moved(ctx context.Context, pod, from string) (bool, string, error) {
	p, err := c.kube.CoreV1().Pods(c.namespace()).Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return false, "", err
	}
	s := stateOf(&p.ObjectMeta, &p.Spec, &p.Status)
	up := s.ready
	for _, container := range p.Status.ContainerStatuses {
		up = up || container.RestartCount > 0
	}
	return up && s.node != from && !s.deleting, s.String(), nil
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

// volume is the volume of a pod's claim.
type volume struct {
	pv     string
	handle string // Of a CSI driver, empty without one.
}

// volume waits until the claim of a pod is bound and returns its volume.
func (c *runner) volume(ctx context.Context, pod string) (volume, error) {
	var v volume
	what := fmt.Sprintf("the claim of %s to be bound", pod)
	err := await.Until(ctx, what, lookEvery, plan.MaxBound, func(ctx context.Context) (bool, string, error) {
		claims, err := c.kube.CoreV1().PersistentVolumeClaims(c.namespace()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", fmt.Errorf("list claims: %w", err)
		}
		for _, claim := range claims.Items {
			if !strings.HasSuffix(claim.Name, "-"+pod) || claim.Spec.VolumeName == "" {
				continue
			}
			pv, err := c.kube.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
			if err != nil {
				return false, "", fmt.Errorf("get PersistentVolume: %w", err)
			}
			v.pv = pv.Name
			if pv.Spec.CSI != nil {
				v.handle = pv.Spec.CSI.VolumeHandle
			}
			return true, "", nil
		}
		return false, fmt.Sprintf("%d claims, that of %s not bound", len(claims.Items), pod), nil
	})
	return v, err
}

// at reports whether a path is a mount point of the volume, of the given kind.
func (v volume) at(path, place string) bool {
	if g, ok := history.ParseCSIGlobalMount(path); ok {
		sum := sha256.Sum256([]byte(v.handle))
		return place != plan.PlacePod && v.handle != "" && g.Hash == hex.EncodeToString(sum[:])
	}
	kv, ok := history.ParseKubeletPath(path)
	return ok && place != plan.PlaceGlobal && kv.Name == v.pv
}
