package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/e2e/world"
)

// step is what the controller of a StatefulSet does next, and what it waits for before it does. Without blockers it
// does it now.
type step struct {
	action   Action
	ordinal  int
	blockers []blocker
	rule     string
}

// blocker is a pod that the controller waits for; pod is nil when it is not there.
type blocker struct {
	ordinal int
	pod     *pod
	state   state
}

// key tells steps apart that are not the same one: as long as it stays the same nothing has moved.
func (s step) key() string {
	key := fmt.Sprintf("%s %d", s.action, s.ordinal)
	for _, b := range s.blockers {
		key += fmt.Sprintf(" %d %s", b.ordinal, b.state)
		if b.pod != nil {
			key += " " + b.pod.UID()
		}
	}
	return key
}

// The rules by which a controller waits, in words.
const (
	ruleOrder = "OrderedReady: nothing is created, deleted or updated before every pod that is to stay is Running, " +
		"Ready and available for minReadySeconds, the lowest ordinal first"
	ruleGone      = "OrderedReady: a pod is deleted only when every higher ordinal is gone"
	ruleCondemned = "OrderedReady: a pod that is to go and is not available goes only when no lower one is unavailable"
	ruleReborn    = "a pod is created only when the one of the same name is gone from the API"
	ruleMost      = "no more than maxUnavailable pods are unavailable during an update"
	ruleHighest   = "a rolling update goes from the highest ordinal down, each pod available before the next"
	ruleBatch     = "Parallel: while a pod cannot be created nothing is scaled down or updated"
	ruleRecreate  = "Recreate: no pod is created before every one of an old revision is gone"
)

// view is a StatefulSet and its pods as the controller sorts them (updateStatefulSet).
type view struct {
	k         *known
	set       *set
	replicas  []*pod // By place; nil where one is missing.
	condemned []*pod // The highest ordinal first.
}

func (k *known) view(of *world.StatefulSet) *view {
	s := &set{of.Spec.Demand, of, max(0, min(of.Spec.Demand.Replicas, world.MostOrdinals))}
	v := &view{k: k, set: s, replicas: make([]*pod, s.replicas)}
	for key, versions := range k.Pods.ByKey {
		if name, _, ok := world.OrdinalOf(versions[0].Name()); !ok || name != of.Name() {
			continue // Not one of its pods by its name.
		}
		p, ok := k.pod(k.Pods.At(key, k.at))
		if !ok || p.set != of.Key() {
			continue
		}
		if s.replica(p.ordinal) {
			v.replicas[p.ordinal-s.Start] = p
		} else {
			v.condemned = append(v.condemned, p)
		}
	}
	slices.SortFunc(v.condemned, func(a, b *pod) int { return cmp.Compare(b.ordinal, a.ordinal) })
	return v
}

// block is the replica in place i as a blocker, blockOf any pod; the state is empty when it is available.
func (v *view) block(i int) blocker {
	return blocker{v.set.Start + i, v.replicas[i], v.replicas[i].state(v.set.MinReady)}
}

func (v *view) blockOf(p *pod) blocker { return blocker{p.ordinal, p, p.state(v.set.MinReady)} }

// next is the controller's next step.
func (v *view) next() step {
	switch {
	case v.set.Deleting():
		return step{action: ActionNone, ordinal: -1}
	case v.set.Strategy == world.Recreate:
		if s, waits := v.recreates(); waits {
			return s
		}
	}
	if v.set.Parallel {
		return v.burst()
	}
	return v.ordered()
}

// recreates waits for the pods of old revisions (recreateDeleteAndWait).
func (v *view) recreates() (step, bool) {
	s := step{action: ActionUpdate, rule: ruleRecreate}
	for _, p := range slices.Concat(v.replicas, v.condemned) {
		if p == nil || p.revision() == v.set.Status.UpdateRevision || v.set.Status.UpdateRevision == "" {
			continue
		}
		s.ordinal = p.ordinal
		if !p.terminating() {
			return step{action: ActionUpdate, ordinal: p.ordinal}, true
		}
		s.blockers = append(s.blockers, v.blockOf(p))
	}
	return s, len(s.blockers) > 0
}

// ordered is the next step of OrderedReady (processReplica, processCondemned).
func (v *view) ordered() step {
	for i, p := range v.replicas {
		b := v.block(i)
		switch {
		case p == nil:
			return v.creates(b)
		case b.state == stateOver && !p.terminating():
			return step{action: ActionReplace, ordinal: b.ordinal}
		case b.state == stateOver || b.state == stateTerminating:
			return step{ActionCreate, b.ordinal, []blocker{b}, ruleReborn}
		case b.state != "":
			s := v.after(i)
			s.blockers, s.rule = []blocker{b}, ruleOrder
			return s
		}
	}
	if len(v.condemned) > 0 {
		return v.condemn()
	}
	if i := v.stale(); i >= 0 {
		return step{action: ActionUpdate, ordinal: v.set.Start + i}
	}
	return step{action: ActionNone, ordinal: -1}
}

// creates is the creation of a pod, which waits for a claim of the pod before it (PodClaimIsStale).
func (v *view) creates(b blocker) step {
	s := step{action: ActionCreate, ordinal: b.ordinal}
	if v.k.refusal(v.set, b.ordinal) != nil || v.k.staleClaim(v.set, b.ordinal) != nil {
		s.blockers = []blocker{b}
	}
	return s
}

// after is what comes next once the pod in place i is available.
func (v *view) after(i int) step {
	for j := i + 1; j < len(v.replicas); j++ {
		if v.replicas[j] == nil {
			return step{action: ActionCreate, ordinal: v.set.Start + j}
		}
	}
	if len(v.condemned) > 0 {
		return step{action: ActionDelete, ordinal: v.toGo().ordinal}
	}
	if j := v.stale(); j >= 0 {
		return step{action: ActionUpdate, ordinal: v.set.Start + j}
	}
	return step{action: ActionSettle, ordinal: v.set.Start + i}
}

// toGo is the condemned pod that is deleted next, and the first one where all are terminating.
func (v *view) toGo() *pod {
	for _, p := range v.condemned {
		if !p.terminating() {
			return p
		}
	}
	return v.condemned[0]
}

// condemn is the scale-down of OrderedReady, when all pods that are to stay are available: the first condemned pod goes
// when it is healthy, or when it is the lowest one of those that are not.
func (v *view) condemn() step {
	first := v.condemned[0]
	s := step{action: ActionDelete, ordinal: first.ordinal}
	if first.terminating() {
		s.ordinal, s.blockers, s.rule = v.toGo().ordinal, []blocker{v.blockOf(first)}, ruleGone
		return s
	}
	if v.blockOf(first).state == "" {
		return s
	}
	for _, p := range slices.Backward(v.condemned) {
		if b := v.blockOf(p); b.state != "" {
			if p != first {
				s.blockers, s.rule = []blocker{b}, ruleCondemned
			}
			return s
		}
	}
	return s
}

// stale is the place of the highest pod that an update has to replace and did not ask to end yet, -1 where there is
// none.
func (v *view) stale() int {
	if v.set.Strategy != world.RollingUpdate || v.set.Status.UpdateRevision == "" {
		return -1
	}
	for i := len(v.replicas) - 1; i >= max(0, v.set.Partition); i-- {
		if p := v.replicas[i]; p != nil && p.revision() != v.set.Status.UpdateRevision && !p.terminating() {
			return i
		}
	}
	return -1
}

// burst is the next step of Parallel: nothing waits for anything but a creation that is refused, and updates.
func (v *view) burst() step {
	for i, p := range v.replicas {
		b := v.block(i)
		switch {
		case p == nil:
			s := v.creates(b)
			if goes := v.alive(); len(s.blockers) > 0 && goes != nil {
				s.action, s.ordinal, s.rule = ActionDelete, goes.ordinal, ruleBatch
			}
			return s
		case b.state == stateOver && !p.terminating():
			return step{action: ActionReplace, ordinal: b.ordinal}
		}
	}
	if p := v.alive(); p != nil {
		return step{action: ActionDelete, ordinal: p.ordinal}
	}
	for i := range v.replicas {
		if b := v.block(i); b.state == stateTerminating || b.state == stateOver {
			return step{ActionCreate, b.ordinal, []blocker{b}, ruleReborn}
		}
	}
	if len(v.condemned) > 0 {
		return step{ActionDelete, v.condemned[0].ordinal, []blocker{v.blockOf(v.condemned[0])}, ""}
	}
	return v.roll()
}

// alive is the highest condemned pod that is not terminating, nil where there is none.
func (v *view) alive() *pod {
	if len(v.condemned) == 0 || v.toGo().terminating() {
		return nil
	}
	return v.toGo()
}

// roll is the rolling update of Parallel, with the feature MaxUnavailableStatefulSet and without.
func (v *view) roll() step {
	var waits []blocker
	broken := -1
	stale := v.stale()
	for i := len(v.replicas) - 1; i >= 0; i-- {
		b := v.block(i)
		if b.state == "" {
			continue
		}
		waits = append(waits, b)
		if i >= v.set.Partition && stale >= 0 && b.pod.revision() != v.set.Status.UpdateRevision && broken < 0 {
			broken = i
		}
	}
	switch {
	case len(waits) == 0 && stale < 0:
		return step{action: ActionNone, ordinal: -1}
	case stale < 0:
		slices.Reverse(waits)
		return step{ActionSettle, waits[0].ordinal, waits, ""}
	case v.set.Limited && broken >= 0:
		return step{action: ActionUpdate, ordinal: v.set.Start + broken}
	case v.set.Limited && len(waits) >= v.set.Unavailable:
		return step{ActionUpdate, v.set.Start + stale, waits, ruleMost}
	case !v.set.Limited && len(waits) > 0 && waits[0].ordinal-v.set.Start > stale:
		return step{ActionUpdate, v.set.Start + stale, waits[:1], ruleHighest}
	}
	return step{action: ActionUpdate, ordinal: v.set.Start + stale}
}

// refusal is the Event that tells that a pod could not be created, nil where there is none or where the pod was created
// after it. The controller may not tell of that: it may tell only so much.
func (k *known) refusal(s *set, ordinal int) *world.Notice {
	about := func(reason string) *world.Notice {
		return k.latest("StatefulSet "+s.Key(), []string{reason}, func(n *world.Notice) bool {
			return mentions(n.Spec.Message, s.pod(ordinal))
		})
	}
	refused := about("FailedCreate")
	if refused == nil {
		return nil
	}
	if made := about("SuccessfulCreate"); made != nil && k.told(made).At > k.told(refused).At {
		return nil
	}
	last := k.Pods.Known(world.Key(s.Event.Object.Namespace, s.pod(ordinal)), k.at)
	if last != nil && created(k.Pods, last).At > k.told(refused).At {
		return nil
	}
	return refused
}

// staleClaim is the claim that belongs to a pod before the one that is missing, nil where there is none: it is to be
// deleted with it, and the new pod is not created before it is (hasStaleOwnerRef).
func (k *known) staleClaim(s *set, ordinal int) *world.Claim {
	if !s.DeleteScaled {
		return nil
	}
	for _, template := range s.Spec.Templates {
		c := k.Claims.At(world.Key(s.Event.Object.Namespace, template+"-"+s.pod(ordinal)), k.at)
		if c == nil {
			continue
		}
		for _, r := range c.Meta.OwnerReferences {
			if r.Kind == "Pod" && r.Name == s.pod(ordinal) {
				return c
			}
		}
	}
	return nil
}

// mentions reports that a message has a name as a word of its own.
func mentions(message, name string) bool {
	words := strings.FieldsFunc(message, func(c rune) bool { return strings.ContainsRune(` ",`, c) })
	return slices.ContainsFunc(words, func(word string) bool { return strings.Trim(word, ":.") == name })
}

// behind are the pods that stand behind the blockers of a step in the way of the same thing: when those are out of the
// way, the controller comes to these, in this order. They do not count as long as they only wait themselves.
func (v *view) behind(s step) []blocker {
	if len(s.blockers) == 0 {
		return nil
	}
	var all []blocker // Replicas from the lowest ordinal up, condemned pods from the highest down.
	for i := range v.replicas {
		all = append(all, v.block(i))
	}
	for _, p := range v.condemned {
		all = append(all, v.blockOf(p))
	}
	if s.rule == ruleCondemned || s.rule == ruleHighest {
		slices.Reverse(all)
	}
	return slices.DeleteFunc(all, func(b blocker) bool {
		return b.state == "" || !v.delays(s, b) ||
			slices.ContainsFunc(s.blockers, func(now blocker) bool { return now.ordinal == b.ordinal })
	})
}

// delays reports whether the rule of a step makes it wait for a pod that is not available.
func (v *view) delays(s step, b blocker) bool {
	stays := v.set.replica(b.ordinal)
	ending := !stays && b.pod.terminating() && b.ordinal > s.ordinal
	switch s.rule {
	case ruleOrder:
		if stays {
			return b.ordinal > s.blockers[0].ordinal && b.pod != nil &&
				(s.action != ActionCreate || b.ordinal < s.ordinal)
		}
		return s.action == ActionDelete && ending
	case ruleGone:
		return ending
	case ruleCondemned:
		return !stays && b.ordinal != s.ordinal
	case ruleHighest:
		return stays && b.ordinal > s.ordinal
	case ruleBatch:
		return stays && b.pod == nil && v.k.refusal(v.set, b.ordinal) != nil
	}
	return false
}

// explainBlockers explains every pod that blocks a step. The outlook of the whole is the worst of theirs.
func (d *Diagnosis) explainBlockers(v *view, s step) {
	after := ""
	for i, b := range slices.Concat(s.blockers, v.behind(s)) {
		r := &reasoner{view: v, step: s}
		r.blocked(b)
		since := b.since()
		blocks := Blocker{Pod: v.set.pod(b.ordinal), State: string(b.state), Since: v.k.clock(since),
			For: v.k.lasted(since), Causes: r.causes, Outlook: r.outlook, Reason: r.reason}
		if b.state == stateNotAvailable {
			blocks.State += " for another " + Lasting(b.pod.unavailableFor(v.set.MinReady).Round(time.Second))
		}
		if i >= len(s.blockers) {
			blocks.After = after
		}
		after = blocks.Pod
		d.Blockers = append(d.Blockers, blocks)
		if i == 0 {
			d.Causes = append(d.Causes, r.causes...)
			d.Outlook, d.Reason = r.outlook, r.reason
		} else if worse(r.outlook, d.Outlook) {
			d.Outlook, d.Reason = r.outlook, "as far as "+blocks.Pod+" blocks it: "+r.reason
		}
	}
}

// worse reports that one outlook leaves less hope than another.
func worse(a, b Outlook) bool {
	order := []Outlook{Transient, NotKnown, Permanent}
	return slices.Index(order, a) > slices.Index(order, b)
}
