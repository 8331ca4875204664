// Package explain says of one StatefulSet at one moment what its controller wants to do, which pod blocks it, since
// when and why, and whether that looks as if it would pass.
//
// It is pure and reads a world alone: that of a saved run at a moment, or one of the objects of a cluster as it is now.
// The order in which a controller acts is that of k8s.io/kubernetes pkg/controller/statefulset.
package explain

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// DefaultBound is how long nothing has to move before it is called stuck. A pod that does little is made and Ready
// within a few seconds.
const DefaultBound = 5 * time.Second

// diagnose says what the StatefulSet "namespace/name" waits for. One that is not known gets a diagnosis that says so.
func diagnose(k *known, key string, bound time.Duration) Diagnosis {
	d := Diagnosis{StatefulSet: key, At: k.clock(atTime(k.at)), Ordinal: -1, Blockers: []Blocker{},
		Causes: []Cause{}}
	s := k.StatefulSets.At(key, k.at)
	if s == nil {
		d.Action, d.Outlook = ActionUnknown, NotKnown
		d.Wants = "what is not known: the StatefulSet was not seen"
		d.Reason = "what is wanted is written in the StatefulSet"
		d.Causes = append(d.Causes, k.missing...)
		return d
	}
	v := k.view(s)
	next := v.next()
	d.Action, d.Ordinal, d.Rule, d.Wants = next.action, next.ordinal, next.rule, v.wants(next)
	if next.action == ActionNone {
		return d
	}
	if next.action == ActionSettle {
		d.Rule = "" // Nothing else is kept waiting.
	}
	if len(next.blockers) > 0 {
		d.explainBlockers(v, next)
		d.Stuck = d.Blockers[0].For >= bound
	} else {
		r := &reasoner{view: v, step: next}
		r.idle()
		d.Causes = append(d.Causes, r.causes...)
		d.Outlook, d.Reason = r.outlook, r.reason
	}
	if d.Outlook == NotKnown {
		d.Causes = append(d.Causes, k.missing...)
	}
	d.Stuck = d.Stuck || d.Outlook == Permanent
	return d
}

// wants tells a step as a sentence that goes on after "the controller wants".
func (v *view) wants(s step) string {
	name := v.set.pod(s.ordinal)
	key := world.Key(v.set.Event.Object.Namespace, name)
	wanted := plan.Count(v.set.replicas, "replica") + " " + isAre(v.set.replicas) + " wanted"
	switch s.action {
	case ActionNone:
		if v.set.Deleting() {
			return "nothing: the StatefulSet is being deleted, and its controller does no more than count"
		}
		leaves := "strategy " + v.set.Strategy
		if v.set.Strategy == world.RollingUpdate {
			leaves = fmt.Sprintf("partition %d", v.set.Partition)
		}
		n := 0 // Pods that are not of the update revision.
		for _, p := range v.replicas {
			if p != nil && v.set.Status.UpdateRevision != "" && p.revision() != v.set.Status.UpdateRevision {
				n++
			}
		}
		if n > 0 {
			return fmt.Sprintf("nothing: %s and available, and %s of an old revision %s left as they are (%s)", wanted,
				plan.Count(n, "pod"), isAre(n), leaves)
		}
		return fmt.Sprintf("nothing: %s, and all are available at their revision", wanted)
	case ActionCreate:
		if v.k.Pods.At(key, v.k.at) != nil {
			return fmt.Sprintf("to recreate %s", name)
		}
		return fmt.Sprintf("to create %s: %s", name, wanted)
	case ActionDelete:
		return fmt.Sprintf("to delete %s: %s, from ordinal %d on", name, wanted, v.set.Start)
	case ActionUpdate:
		from := ""
		if p := v.k.Pods.At(key, v.k.at); p != nil && p.Meta.Labels[revisionLabel] != "" {
			from = " from revision " + p.Meta.Labels[revisionLabel]
		}
		return fmt.Sprintf("to update %s%s to %s", name, from, v.set.Status.UpdateRevision)
	case ActionReplace:
		return fmt.Sprintf("to replace %s, which has ended", name)
	}
	return fmt.Sprintf("nothing but to see %s available: all pods are there and at their revision", name)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// since returns since when the pod is in its state.
func (b blocker) since() moment {
	switch {
	case b.pod == nil:
		return moment{}
	case b.state == stateTerminating:
		return b.pod.asked()
	case b.state == stateOver:
		return b.pod.over()
	case b.state == stateNotAvailable:
		return b.pod.ready()
	}
	return b.pod.unready()
}

// reasoner puts the chain of causes together.
type reasoner struct {
	*view
	step    step
	causes  []Cause
	outlook Outlook
	reason  string
	nodal   bool // What is permanent is so because of a node, which a fault may have hurt.
}

// because adds a link.
func (r *reasoner) because(evidence []Evidence, format string, args ...any) {
	r.causes = append(r.causes, Cause{Sentence: oneLine(fmt.Sprintf(format, args...)), Evidence: evidence})
}

// said repeats an Event of the API; what ends before its time.
func (r *reasoner) said(n *world.Notice, what string) {
	r.because(proof(n, "message"), "%s %s: %s", what, r.k.clock(r.k.told(n)), quote(n.Spec.Message))
}

// looks says how it looks; what was said first stands, unless it was not known.
func (r *reasoner) looks(as Outlook, format string, args ...any) {
	if r.outlook == "" || r.outlook == NotKnown && as != NotKnown {
		r.outlook, r.reason = as, oneLine(fmt.Sprintf(format, args...))
	}
}

// quote repeats what a program said: on one line, and without what does not print.
func quote(message string) string {
	printed := strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return ' '
	}, message)
	return `"` + oneLine(printed) + `"`
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func (r *reasoner) blocked(b blocker) {
	switch b.state {
	case stateMissing:
		r.refused(b.ordinal)
	case stateTerminating:
		r.terminating(b.pod)
	case stateOver:
		r.over(b.pod)
	case stateNotAvailable:
		left := b.pod.unavailableFor(r.set.MinReady).Round(time.Second)
		r.because(proof(b.pod.Pod, "status.conditions[Ready].lastTransitionTime"),
			"%s is Ready%s and counts as available after %d s (minReadySeconds): in another %s", b.pod.Name(),
			r.k.since(b.pod.ready()), r.set.MinReady, Lasting(left))
		r.looks(Transient, "it is available in %s if it stays Ready", Lasting(left))
	default:
		r.notReady(b.pod)
	}
	if b.pod != nil {
		r.brokenRevision(b)
		r.faultsOn(b)
	}
	r.looks(NotKnown, "no fact says why")
}

func (r *reasoner) over(p *pod) {
	why := strings.Trim(p.Status.Reason+": "+p.Status.Message, ": ")
	if why != "" {
		why = ": " + quote(why)
	}
	r.because(proof(p.Pod, "status.phase"), "%s has %s%s%s", p.Name(), strings.ToLower(string(p.Status.Phase)),
		r.k.since(p.over()), why)
	if p.terminating() {
		r.terminating(p)
		return
	}
	r.looks(Transient, "the controller deletes a pod that has ended and recreates it")
}

// refused explains why a pod that is missing is not created.
func (r *reasoner) refused(ordinal int) {
	name := r.set.pod(ordinal)
	if n := r.k.refusal(r.set, ordinal); n != nil {
		r.said(n, "creating "+name+" was refused, last at")
		if strings.Contains(n.Spec.Message, "exceeded quota") {
			r.limited()
		}
		switch {
		case strings.Contains(n.Spec.Message, "exceeded quota") && r.step.rule == ruleBatch:
			r.looks(Permanent, "the pods that would free the quota are those that wait for it (kubernetes/kubernetes "+
				"issue 140858): raise the quota or delete one of them")
		case strings.Contains(n.Spec.Message, "exceeded quota"):
			r.looks(Permanent, "it lasts until the quota is raised or something else that counts is deleted; "+
				"the controller retries by itself")
		case strings.Contains(n.Spec.Message, "forbidden"), strings.Contains(n.Spec.Message, "is invalid"),
			strings.Contains(n.Spec.Message, "denied the request"):
			r.looks(Permanent, "the API server refuses the pod as it is: the template has to change, or "+
				"what refuses it")
		default:
			r.looks(NotKnown, "the controller retries by itself")
		}
	}
	if c := r.k.staleClaim(r.set, ordinal); c != nil {
		r.because(proof(c, "metadata.ownerReferences"),
			"PVC %s still belongs to the previous pod %s; it is to be deleted first "+
				"(persistentVolumeClaimRetentionPolicy.whenScaled is Delete)", c.Name(), name)
		if len(c.Meta.Finalizers) > 0 && c.Meta.DeletionTimestamp != nil {
			r.because(proof(c, "metadata.finalizers"), "PVC %s is being deleted and held by %s", c.Name(),
				strings.Join(c.Meta.Finalizers, ", "))
		}
		r.looks(Transient, "the garbage collector deletes the claim of a pod that is gone")
	}
}

// reasonIdle is why a step that nothing blocks looks transient.
const reasonIdle = "no pod blocks it: the controller does it as soon as it gets to it"

// idle explains a controller that could act and was not yet seen to.
func (r *reasoner) idle() {
	if r.set.Status.ObservedGeneration < r.set.Meta.Generation {
		var asked moment
		if !r.k.live {
			first, _ := since(r.k.StatefulSets, r.set.StatefulSet, func(v *world.StatefulSet) bool {
				return v.Meta.Generation == r.set.Meta.Generation
			})
			asked = seen(first.Event)
		}
		r.because(proof(r.set.StatefulSet, "status.observedGeneration"),
			"the controller has not observed the latest spec%s: it has seen generation %d of %d",
			r.k.since(asked), r.set.Status.ObservedGeneration, r.set.Meta.Generation)
	}
	for _, f := range r.k.faults {
		end := healed(f)
		switch ago := r.k.lasted(end); {
		case !r.hurtsControl(f):
		case !end.Known:
			r.fault(f)
			r.looks(Transient, "the fault of step %d is still active on what the controller needs, and will be "+
				"healed", f.Step)
		case ago < usualStart:
			r.fault(f)
			r.looks(Transient, "step %d (%s) was healed only %s ago; a controller that was started again has to "+
				"become the leader before it acts", f.Step, f.Name, Lasting(ago))
		}
	}
	if n := r.k.noticed("StatefulSet "+r.set.Key(), "", "FailedCreate", "FailedDelete", "FailedUpdate"); n != nil &&
		r.k.lasted(r.k.told(n)) < time.Minute {
		r.said(n, "the last failure that the controller reported, at")
	}
	r.looks(Transient, "%s", reasonIdle)
}

// brokenRevision explains what makes a rollout stay stuck although the template was put right (kubernetes/kubernetes
// issue 67250, "Forced rollback" in the documentation): OrderedReady waits for the pod before it would replace it.
func (r *reasoner) brokenRevision(b blocker) {
	p := b.pod
	update := r.set.Status.UpdateRevision
	if b.state != stateNotReady || r.set.Parallel || r.set.Strategy != world.RollingUpdate || update == "" ||
		p.revision() == "" || p.ordinal-r.set.Start >= r.set.replicas {
		return
	}
	switch {
	case p.revision() != update && p.ordinal-r.set.Start >= r.set.Partition:
		r.because(append(proof(p.Pod, "metadata.labels["+revisionLabel+"]"),
			proof(r.set.StatefulSet, "status.updateRevision")...),
			"%s is of revision %s, and %s is wanted; the controller does not replace it, because it waits for it to "+
				"become Ready first (kubernetes/kubernetes issue 67250)", p.Name(), p.revision(), update)
		if r.outlook == Permanent || !p.everReady() && r.outlook == NotKnown {
			r.outlook, r.reason = Permanent, fmt.Sprintf("a corrected template is not enough: delete pod %s, and the "+
				"controller recreates it at %s", p.Name(), update)
		}
	case r.outlook == Permanent && update != r.set.Status.CurrentRevision && p.revision() == update:
		r.reason += fmt.Sprintf("; once the template is corrected, pod %s has to be deleted by hand as well "+
			"(kubernetes/kubernetes issue 67250)", p.Name())
	}
}
