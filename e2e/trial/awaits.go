package trial

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// pollEvery is how often the API is polled for what a step waits for.
const pollEvery = 200 * time.Millisecond

// enclosing is the state when an enclosing step, or the last change before a step, began.
type enclosing struct {
	since history.Time
	pods  map[string]*podState // By their names.
	// open are the ends of the faults that outlast the one around them; nil outside of faults.
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

// answered asks the API server until it answers: a fault may have stopped it a moment ago. NotFound and Invalid are
// answers. Forbidden is none: a server that has just started forbids everything until it has read its rules.
func answered(ctx context.Context, what string, ask func(context.Context) error) error {
	return await.Until(ctx, what, pollEvery, answerBound, func(ctx context.Context) (bool, string, error) {
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

type awaited struct {
	happened history.Span
	known    history.Time // When the harness knew of it.
	what     string
}

// wanted describes the facts that a step waits for.
type wanted struct {
	what  string // Names them in an error.
	since history.Time
	count int // Selects the nth fact; 0 means the first.
	// match reports whether a fact is one of them, and what it shows: empty if it is of no concern.
	match func(arrival) (bool, string)
	says  func(arrival) string // Describes the selected fact.
}

// await carries out a step that waits, and records how long after the fact the trial continues. In is the enclosing
// step, base the last change before this one.
func (c *runner) await(ctx context.Context, s plan.Step, in, base enclosing) error {
	a := *s.Await
	var err error
	if in, base, err = c.from(ctx, a, in, base); err != nil {
		return err
	}
	seen, err := c.waitFor(ctx, s, in, base)
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

// from returns what replaces in and base if the step says since when facts count.
func (c *runner) from(ctx context.Context, a plan.Await, in, base enclosing) (enclosing, enclosing, error) {
	at := enclosing{since: bootclock.Now()}
	var err error
	switch {
	case a.Since == "":
		return in, base, nil
	case a.Since == plan.SinceTrial:
		at.since = c.began
	case a.Since == plan.SinceSteps:
		at.since = c.stepsBegan
	case a.Moment():
		at, err = c.enclose(ctx)
	}
	return at, at, err
}

// waitFor waits for facts in the feed, or polls the API server.
func (c *runner) waitFor(ctx context.Context, s plan.Step, in, base enclosing) (awaited, error) {
	a := *s.Await
	pod := c.podName(a.Ordinal)
	began := bootclock.Now()
	var w wanted
	var what string
	var err error
	switch {
	case a.Moment():
		w = c.moment(a, pod, base)
	case a.For == plan.AwaitCSIBegin || a.For == plan.AwaitCSIEnd:
		w, err = c.call(ctx, a, pod, in)
	case a.For == plan.AwaitMount || a.For == plan.AwaitUnmount:
		w, err = c.mount(ctx, a, pod, base)
	case a.For == plan.AwaitObject:
		w, err = c.object(a, base)
	case a.For == plan.AwaitCommits:
		w = c.commits(a, base)
	case a.For == plan.AwaitWrites:
		w = c.writes(a, pod, base)
	case a.For == plan.AwaitFault:
		w = c.stage(a)
	case a.For == plan.AwaitVersion:
		w = c.tells(a, in)
	case a.For == plan.AwaitTime:
		return c.awaitTime(ctx, a, base)
	case a.For == plan.AwaitSettled:
		what, err = "the StatefulSet has settled", c.workload.Converge(ctx, s.Bound.D())
	case a.For == plan.AwaitStill:
		what, err = fmt.Sprintf("no pod stirred for %s", a.Lasting), c.awaitStill(ctx, a.Lasting.D())
	case a.For == plan.AwaitMoved:
		what = fmt.Sprintf("%s came up on another node than %s", pod, in.node(pod))
		began, err = c.poll(ctx, what, s.Bound.D(), func(ctx context.Context) (bool, string, error) {
			return c.moved(ctx, pod, in.node(pod))
		})
	case a.For == plan.AwaitNotReady:
		what = fmt.Sprintf("node %s is not Ready", in.node(pod))
		began, err = c.poll(ctx, what, s.Bound.D(), func(ctx context.Context) (bool, string, error) {
			return c.notReady(ctx, in.node(pod))
		})
	default:
		err = fmt.Errorf("carry out step %d: nothing called %q can be awaited", s.N, a.For)
	}
	if err != nil || w.match == nil {
		now := bootclock.Now()
		return awaited{history.Between(began, now), now, what}, err
	}
	e, err := c.until(ctx, w)
	if err != nil {
		return awaited{}, err
	}
	return awaited{e.Span, e.at, w.says(e)}, nil
}

// until reads the feed from its first fact on until it has met count wanted facts, and returns the last of these.
func (c *runner) until(ctx context.Context, w wanted) (arrival, error) {
	last, next := "nothing of the kind", 0
	for {
		more, moved := c.rec.after(next)
		for _, a := range more {
			next++
			ok, seen := w.match(a)
			if seen != "" {
				last = seen
			}
			switch {
			case !ok:
			case a.Fault != nil && a.Fault.Stage == history.StageFaultFailed:
				return arrival{}, fmt.Errorf("await %s: it failed: %s", w.what, a.Fault.Error)
			case w.count <= 1:
				return a, nil
			default:
				w.count--
			}
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return arrival{}, fmt.Errorf("await %s: not seen since %s, last seen: %s: %w", w.what,
				c.sinceBegin(w.since), last, context.Cause(ctx))
		}
	}
}

// rising returns a function that reports whether the object of a uid has just come into a state.
func rising() func(uid string, is bool) bool {
	was := map[string]bool{}
	return func(uid string, is bool) bool {
		rises := is && !was[uid]
		was[uid] = is
		return rises
	}
}

func (c *runner) asked() string {
	if name := c.revision.Load(); name != nil {
		return *name
	}
	return plan.RevisionFirst
}

// moment waits for a state of a pod or a claim that the same object did not have by base.
func (c *runner) moment(a plan.Await, pod string, base enclosing) wanted {
	begun := base.pods[pod]
	rises := rising()
	state := ""
	match := func(e arrival) (bool, string) {
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
	}
	return wanted{fmt.Sprintf("%q of %s", a.For, pod), base.since, a.Count, match,
		func(arrival) string { return fmt.Sprintf("%s: %s", a.For, state) }}
}

// call waits for a CSI call for the volume of a pod.
func (c *runner) call(ctx context.Context, a plan.Await, pod string, in enclosing) (wanted, error) {
	v, err := c.volume(ctx, pod)
	end, word := a.For == plan.AwaitCSIEnd, "began"
	if end {
		word = "ended"
	}
	match := func(e arrival) (bool, string) {
		call := e.CSI
		if call == nil || call.Volume != v.handle {
			return false, ""
		}
		is := call.RPC == a.RPC && call.End == end && e.Span.NotAfter >= in.since && (!end || call.Code == "OK")
		return is, strings.TrimSpace(fmt.Sprintf("%s on %s %s", call.RPC, call.Node, call.Code))
	}
	return wanted{fmt.Sprintf("%s of volume %q", a.RPC, v.handle), in.since, a.Count, match,
		func(e arrival) string { return fmt.Sprintf("%s on %s %s", a.RPC, e.CSI.Node, word) }}, err
}

// mount waits for the begin or the end of a mount of the volume of a pod.
func (c *runner) mount(ctx context.Context, a plan.Await, pod string, base enclosing) (wanted, error) {
	v, err := c.volume(ctx, pod)
	action := history.MountDetach
	if a.For == plan.AwaitMount {
		action = history.MountAttach
	}
	match := func(e arrival) (bool, string) {
		if e.Mount == nil || !v.at(e.path, a.Place) {
			return false, ""
		}
		return e.Mount.Action == action && e.Span.NotAfter >= base.since,
			fmt.Sprintf("%s at %s on %s", e.Mount.Action, e.path, e.Mount.Node)
	}
	return wanted{fmt.Sprintf("a %s of PersistentVolume %q", a.For, v.pv), base.since, a.Count, match,
		func(e arrival) string {
			return fmt.Sprintf("%s of %s on %s, at %s", a.For, v.pv, e.Mount.Node, e.path)
		}}, err
}

// object waits for an object that begins to match.
func (c *runner) object(a plan.Await, base enclosing) (wanted, error) {
	matches, err := a.Object.Compile()
	rises := rising()
	match := func(e arrival) (bool, string) {
		o := e.Object
		if o == nil || !a.Object.Of(o.Resource, o.Name) {
			return false, ""
		}
		holds := matches(o.Raw, o.Verb == history.VerbDeleted)
		return rises(o.UID, holds) && e.Span.NotAfter >= base.since, fmt.Sprintf("%s, matching: %t", o.Name, holds)
	}
	return wanted{a.Object.String(), base.since, a.Count, match,
		func(e arrival) string { return fmt.Sprintf("%s: %s", a.Object, e.Object.Name) }}, err
}

// tells waits until the API server tells a version.
func (c *runner) tells(a plan.Await, in enclosing) wanted {
	what := "the API server tells that it is " + a.Version
	match := func(e arrival) (bool, string) {
		if e.Version == nil {
			return false, ""
		}
		return e.Version.Version == a.Version && e.Span.NotAfter >= in.since, e.Version.Version
	}
	return wanted{what, in.since, a.Count, match, func(arrival) string { return what }}
}

// commits waits for a number of acknowledged inserts.
func (c *runner) commits(a plan.Await, base enclosing) wanted {
	n := 0
	match := func(e arrival) (bool, string) {
		if e.Op == nil || e.Span.NotAfter < base.since {
			return false, ""
		}
		n++
		return true, fmt.Sprintf("%d since then", n)
	}
	return wanted{fmt.Sprintf("%d commits", a.Commits), base.since, a.Commits, match,
		func(arrival) string { return fmt.Sprintf("commit %d since %s", a.Commits, c.sinceBegin(base.since)) }}
}

// writes waits for an insert that a pod acknowledges.
func (c *runner) writes(a plan.Await, pod string, base enclosing) wanted {
	match := func(e arrival) (bool, string) {
		if e.Op == nil || e.Span.NotAfter < base.since {
			return false, ""
		}
		by := cmp.Or(e.Op.By, e.Op.Instance)
		return by == pod, by + " acknowledged an insert"
	}
	return wanted{fmt.Sprintf("an insert that %s acknowledges", pod), base.since, a.Count, match,
		func(arrival) string { return pod + " acknowledged an insert" }}
}

// stage waits for a stage of the fault of another step, or for its failure.
func (c *runner) stage(a plan.Await) wanted {
	stage := history.FaultStage(cmp.Or(a.Stage, plan.StageConfirmed))
	match := func(e arrival) (bool, string) {
		if e.Fault == nil || e.Fault.Step != a.Step {
			return false, ""
		}
		return e.Fault.Stage == stage || e.Fault.Stage == history.StageFaultFailed, "stage " + string(e.Fault.Stage)
	}
	return wanted{fmt.Sprintf("stage %q of the fault of step %d", stage, a.Step), c.stepsBegan, 1, match,
		func(e arrival) string {
			return fmt.Sprintf("the fault of step %d, %s on %s, is %s", a.Step, e.Fault.Name, e.Fault.Node, stage)
		}}
}

// awaitStill waits until no pod was created, deleted or asked to end for so long, from now on.
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

// awaitTime waits until so long after a moment, which may be over.
func (c *runner) awaitTime(ctx context.Context, a plan.Await, base enclosing) (awaited, error) {
	due := base.since.Add(a.After.D())
	if rest := due.Sub(bootclock.Now()); rest > 0 {
		if err := await.For(ctx, rest); err != nil {
			return awaited{}, fmt.Errorf("wait until %s: %w", c.sinceBegin(due), err)
		}
	}
	return awaited{history.At(due), bootclock.Now(), fmt.Sprintf("%s after %s", a.After, c.sinceBegin(base.since))}, nil
}

// poll asks the API until a condition holds, and returns when it last did not.
func (c *runner) poll(ctx context.Context, what string, bound time.Duration, is await.Condition) (
	began history.Time, err error,
) {
	began = bootclock.Now()
	err = await.Until(ctx, what, pollEvery, bound, func(ctx context.Context) (bool, string, error) {
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

// moved reports whether a pod came up on another node: it is Ready there, or its container has ended there.
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
	ready, text := fault.NodeIsReady(n)
	return !ready, "Ready is " + text, nil
}

type volume struct {
	pv     string
	handle string // Of a CSI driver, empty without one.
}

// volume waits until the claim of a pod is bound and returns its volume.
func (c *runner) volume(ctx context.Context, pod string) (volume, error) {
	var v volume
	what := fmt.Sprintf("the claim of %s to be bound", pod)
	err := await.Until(ctx, what, pollEvery, plan.MaxBound, func(ctx context.Context) (bool, string, error) {
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
			switch {
			case pv.Spec.CSI != nil:
				v.handle = pv.Spec.CSI.VolumeHandle
			case pv.Spec.FlexVolume != nil:
				v.handle = pv.Name
			}
			return true, "", nil
		}
		return false, fmt.Sprintf("%d claims, that of %s not bound", len(claims.Items), pod), nil
	})
	return v, err
}

// at reports whether a path is a mount point of the volume, of the given kind.
func (v volume) at(path, place string) bool {
	p, _ := history.PlaceOf(path)
	switch p.Kind {
	case history.PlaceGlobal:
		return place != plan.PlacePod && v.handle != "" && (p.Volume == v.pv || p.Hash == history.HandleHash(v.handle))
	case history.PlacePod:
		return place != plan.PlaceGlobal && p.Volume == v.pv
	case history.PlaceSubpath, history.PlaceBlock:
	}
	return false
}
