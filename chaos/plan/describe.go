package plan

import (
	"fmt"
)

// Describe says in one line what a step of the plan does.
func (p Plan) Describe(s Step) string {
	switch {
	case s.Do == ActionMesh:
		return "chaos-mesh: a manifest that has not been turned into steps"
	case s.Do == ActionPause:
		return fmt.Sprintf("pause: %s, under load", s.Lasting)
	case s.Do == ActionLoad:
		return fmt.Sprintf("load: %s more", count(s.Commits, "acknowledged insert"))
	case s.Do == ActionFault && s.Fault != nil:
		return s.Fault.describe(p)
	case s.Do == ActionChecksum:
		return fmt.Sprintf("checksum: the quiet tables of all instances, %q", s.Label)
	case s.Do == ActionRead:
		return "read: every row of every instance, back"
	case s.Do == ActionTamper && s.Tamper != nil && s.Tamper.Page != 0:
		return fmt.Sprintf(
			"tamper: %s in %s, byte %d of page %d",
			s.Tamper.Kind,
			p.pod(s.Tamper.Ordinal),
			s.Tamper.Byte,
			s.Tamper.Page,
		)
	case s.Do == ActionTamper && s.Tamper != nil:
		return fmt.Sprintf("tamper: %s in %s", s.Tamper.Kind, p.pod(s.Tamper.Ordinal))
	case s.Do == ActionDeleteClaim && s.Ordinal != nil:
		return fmt.Sprintf("delete-claim: that of %s", p.pod(*s.Ordinal))
	case s.Do == ActionDeletePod && s.Ordinal != nil:
		return fmt.Sprintf("delete-pod: %s", p.pod(*s.Ordinal))
	case s.Do == ActionRecover && s.Ordinal != nil:
		return fmt.Sprintf("recover: %s, cloned from the first instance, and caught up by GTID", p.pod(*s.Ordinal))
	case s.Do == ActionAwait && s.Await != nil:
		return "await: " + p.describeAwait(*s.Await)
	case s.Do == ActionTogether:
		return fmt.Sprintf("together: %s beside each other:", count(len(s.Branches), "sequence"))
	}
	if change := p.describeChange(s); change != "" {
		return change + s.changeNote()
	}
	return string(s.Do)
}

// describeChange says what is changed of the StatefulSet; empty when it is nothing that is known.
func (p Plan) describeChange(s Step) string {
	set := fmt.Sprintf("StatefulSet %q", p.Workload.StatefulSet)
	switch {
	case s.Do == ActionScale && s.Replicas != nil:
		return fmt.Sprintf("scale: %s to %s", set, count(*s.Replicas, "replica"))
	case s.Do == ActionUpdate && s.Update != nil:
		switch s.Update.Broken {
		case BrokenImage:
			return fmt.Sprintf("update: %s to revision %q, whose image is nowhere to be had", set, s.Update.Revision)
		case BrokenReadiness:
			return fmt.Sprintf("update: %s to revision %q, whose pods are never Ready", set, s.Update.Revision)
		}
		return fmt.Sprintf("update: %s to revision %q", set, s.Update.Revision)
	case s.Do == ActionRollback:
		return fmt.Sprintf("rollback: %s to revision %q", set, s.Revision)
	case s.Do == ActionPartition && s.Partition != nil:
		return fmt.Sprintf("partition: of %s to %d", set, *s.Partition)
	case s.Do == ActionDeleteSet:
		return fmt.Sprintf("delete-set: %s, %s", set, cascadeNote(s.Cascade))
	case s.Do == ActionCreateSet:
		return fmt.Sprintf("create-set: %s, as it was", set)
	}
	return ""
}

func cascadeNote(cascade string) string {
	switch cascade {
	case CascadeForeground:
		return "its pods before it"
	case CascadeOrphan:
		return "not its pods"
	case "background":
		return "its pods after it"
	}
	return cascade
}

// changeNote says how a change of the StatefulSet goes on.
func (s Step) changeNote() string {
	note := ""
	if s.Wait == WaitObserved {
		note = ", not waiting for it"
	}
	if len(s.During) > 0 {
		note += "; meanwhile:"
	}
	return note
}

// options describes what is set of the StatefulSet's options, one line each.
func (w Workload) options() []string {
	var lines []string
	add := func(set bool, format string, args ...any) {
		if set {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	add(w.Replicated, "every instance but the first is a copy of it")
	add(w.UpdateStrategy != "", "updateStrategy %s", w.UpdateStrategy)
	add(w.Partition != 0, "partition %d", w.Partition)
	add(w.MaxUnavailable != 0, "maxUnavailable %d", w.MaxUnavailable)
	add(w.MinReadySeconds != 0, "minReadySeconds %d", w.MinReadySeconds)
	add(w.Start != 0, "first ordinal %d", w.Start)
	add(w.WhenDeleted != "", "claims when it is deleted: %s", w.WhenDeleted)
	add(w.WhenScaled != "", "claims when it is scaled down: %s", w.WhenScaled)
	return lines
}
