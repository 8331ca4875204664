package plan

import (
	"fmt"
	"slices"
)

// The limits of a StatefulSet's options.
const (
	MaxOrdinal         = 1000
	MaxMinReadySeconds = 3600
)

// setPlan is the StatefulSet as a plan has it at one of its steps.
type setPlan struct {
	light     bool
	most      int // The replicas there are volumes for.
	start     int
	replicas  int  // As was last asked for.
	reach     int  // How many pods there can be: more than replicas while it settles.
	gone      bool // It is deleted.
	orphaned  bool // It is deleted and its pods are not.
	partition int
	onDelete  bool
	revision  string          // As was last asked for.
	broken    map[string]bool // The revisions so far.
	changed   bool            // A change came before.
	leaving   bool            // It is being deleted, and its pods are still there.
}

func newSetPlan(w Workload) setPlan {
	return setPlan{
		light: w.Light, most: w.Replicas, start: w.Start, replicas: w.Replicas, reach: w.Replicas,
		partition: w.Partition, onDelete: w.Strategy() == StrategyOnDelete, revision: RevisionFirst,
		broken: map[string]bool{RevisionFirst: false},
	}
}

// none holds that a field is left out.
func (v *validator) none(field string, value int) {
	if value != 0 {
		v.errs.add(field, "leave it out", "%d is set, and a light workload has no clients", value)
	}
}

// light holds that a light workload has nothing that needs a database.
func (v *validator) light(w Workload) {
	switch {
	case w.Light && w.Name != LightName:
		v.errs.add("workload.light", fmt.Sprintf("use workload.name: %q, or leave it out", LightName),
			"workload %q has databases", w.Name)
	case !w.Light && w.Name == LightName:
		v.errs.add("workload.light", "set it", "is missing for workload %q", w.Name)
	}
	if !w.Light {
		return
	}
	v.none("workload.clients", w.Clients)
	v.none("workload.interval", int(w.Interval))
	v.none("workload.quietRows", w.QuietRows)
	if w.Silent {
		v.errs.add("workload.silent", "leave it out", "a light workload has no clients")
	}
}

// options holds the rules of the StatefulSet's options.
func (v *validator) options(w Workload) {
	strategies := []string{StrategyOnDelete, StrategyRolling}
	if !slices.Contains(strategies, w.Strategy()) {
		v.errs.add("workload.updateStrategy", oneOf(w.UpdateStrategy, strategies), "no strategy %q", w.UpdateStrategy)
	}
	rolling := fmt.Sprintf("leave it out, or use workload.updateStrategy: %q", StrategyRolling)
	if w.Strategy() == StrategyOnDelete && w.Partition != 0 {
		v.errs.add("workload.partition", rolling, "strategy %q has none", StrategyOnDelete)
	}
	if w.Strategy() == StrategyOnDelete && w.MaxUnavailable != 0 {
		v.errs.add("workload.maxUnavailable", rolling, "strategy %q has none", StrategyOnDelete)
	}
	v.within("workload.partition", w.Partition, 0, MaxOrdinal)
	v.within("workload.maxUnavailable", w.MaxUnavailable, 0, MaxReplicas)
	v.within("workload.minReadySeconds", w.MinReadySeconds, 0, MaxMinReadySeconds)
	v.within("workload.start", w.Start, 0, MaxOrdinal)
	policies := []string{PolicyDelete, PolicyRetain}
	for _, p := range []struct{ field, value string }{
		{"workload.whenDeleted", w.WhenDeleted}, {"workload.whenScaled", w.WhenScaled},
	} {
		if p.value != "" && !slices.Contains(policies, p.value) {
			v.errs.add(p.field, oneOf(p.value, policies), "no policy %q", p.value)
		}
	}
}

// change holds the rules of a step that changes the StatefulSet, and goes through what is done during it.
func (v *validator) change(at string, s Step, in within) {
	if (s.Do == ActionCreateSet) != v.set.gone {
		fix, is := "leave the step out", "there"
		if v.set.gone {
			fix, is = "put a create-set step before it", "deleted"
		}
		v.errs.add(at+".do", fix, "the StatefulSet is %s at this step", is)
	}
	v.set.changed = true
	switch {
	case s.Do == ActionScale && s.Replicas != nil:
		v.scale(at+".replicas", *s.Replicas)
	case s.Do == ActionPartition && s.Partition != nil:
		v.partition(at+".partition", *s.Partition)
	case s.Do == ActionUpdate && s.Update != nil:
		v.update(at+".update", *s.Update)
	case s.Do == ActionRollback && s.Revision != "":
		v.rollback(at+".revision", s.Revision)
	case s.Do == ActionDeleteSet:
		if !slices.Contains(Cascades(), s.Cascade) {
			v.errs.add(at+".cascade", oneOf(s.Cascade, Cascades()), "no cascade %q", s.Cascade)
		}
		v.set.gone, v.set.orphaned = true, s.Cascade == CascadeOrphan
	case s.Do == ActionCreateSet:
		v.set.gone, v.set.orphaned = false, false
	}
	v.wait(at, s, in)
}

// wait goes through what is done during a change, and holds that what it waits for can come.
func (v *validator) wait(at string, s Step, in within) {
	waits := []string{WaitObserved, WaitSettled}
	if s.Wait != "" && !slices.Contains(waits, s.Wait) {
		v.errs.add(at+".wait", oneOf(s.Wait, waits), "no wait %q", s.Wait)
	}
	if v.tooDeep(at+".during", in, s.During) {
		return
	}
	v.set.leaving = s.Do == ActionDeleteSet
	v.steps(at+".during", s.During, in.step())
	v.set.leaving = false
	if s.Wait != WaitObserved {
		v.settles(at + ".wait")
	}
}

// settles holds that the StatefulSet can settle at this step, where something waits for it.
func (v *validator) settles(at string) {
	if v.set.broken[v.set.revision] && !v.set.gone && !v.set.onDelete && v.set.partition < v.set.replicas {
		v.errs.add(at, fmt.Sprintf("use %q, and roll back or update before anything waits", WaitObserved),
			"revision %q is broken: its pods are never Ready", v.set.revision)
	}
	v.set.reach = v.set.replicas
}

// victim holds that there are pods that a step can do something to or with.
func (v *validator) victim(at string) {
	if v.set.gone && !v.set.orphaned && !v.set.leaving {
		v.errs.add(at+".do", "put a create-set step before it", "the StatefulSet is deleted at this step")
	}
}

// finally holds that a plan leaves the workload as the trial's last phases need it.
func (v *validator) finally(steps []Step) {
	at := fmt.Sprintf("steps[%d]", max(0, len(steps)-1))
	if v.set.gone {
		v.errs.add(at, "put a create-set step after it", "the StatefulSet is deleted when the plan ends")
		return
	}
	if v.set.changed {
		v.settles(at)
	}
}

func (v *validator) scale(at string, replicas int) {
	switch {
	case replicas < 0 || replicas > MaxReplicas:
		v.errs.add(at, fmt.Sprintf("use 0 to %d", MaxReplicas), "%d is out of range", replicas)
	case replicas == v.set.replicas:
		v.errs.add(at, "use another number, or leave the step out", "there are %d replicas already", replicas)
	case replicas > v.set.most:
		v.errs.add(at, fmt.Sprintf("use 0 to %d, or raise workload.replicas", v.set.most),
			"there are volumes for %d replicas, not for %d", v.set.most, replicas)
	default:
		v.set.reach = max(v.set.reach, replicas)
		v.set.replicas = replicas
	}
}

func (v *validator) partition(at string, partition int) {
	v.within(at, partition, 0, MaxOrdinal)
	switch {
	case v.set.onDelete:
		v.errs.add(at, "leave the step out", "strategy %q has no partition", StrategyOnDelete)
	case partition == v.set.partition:
		v.errs.add(at, "use another number, or leave the step out", "it is %d already", partition)
	}
	v.set.partition = partition
}

func (v *validator) update(at string, u Update) {
	_, used := v.set.broken[u.Revision]
	switch {
	case !legalName(u.Revision):
		v.errs.add(at+".revision", nameRule, "%q is not a name", u.Revision)
	case used:
		v.errs.add(at+".revision", "use another name, or a rollback step", "there is a revision %q already", u.Revision)
	}
	if u.Broken != "" && !slices.Contains(Brokens(), u.Broken) {
		v.errs.add(at+".broken", oneOf(u.Broken, Brokens()), "nothing called %q can be wrong with a revision", u.Broken)
	}
	if !legalName(u.Revision) {
		return // It is not to be shown as one that there is.
	}
	v.set.revision = u.Revision
	v.set.broken[u.Revision] = u.Broken != ""
}

func (v *validator) rollback(at, revision string) {
	var known []string
	for name := range v.set.broken {
		known = append(known, name)
	}
	slices.Sort(known)
	_, ok := v.set.broken[revision]
	switch {
	case !ok:
		v.errs.add(at, oneOf(revision, known), "no revision %q at this step", revision)
		return
	case revision == v.set.revision:
		v.errs.add(at, "use an earlier one, or leave the step out", "the template is at %q already", revision)
	}
	v.set.revision = revision
}
