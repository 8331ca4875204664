package plan

// Action is what a step does.
type Action string

// The actions a step can be.
const (
	ActionAwait       Action = "await"        // Wait until something is seen in the trial's own facts.
	ActionMesh        Action = "chaos-mesh"   // A Chaos Mesh manifest: turned into other steps when the plan is read.
	ActionChecksum    Action = "checksum"     // Checksum the quiet tables of all instances.
	ActionCreateSet   Action = "create-set"   // Make the StatefulSet again, as it was when it was deleted.
	ActionDeleteClaim Action = "delete-claim" // Delete the claim of one pod. While the pod is there, it stays.
	ActionDeletePod   Action = "delete-pod"   // Delete one pod, with its own grace, whether or not another comes.
	ActionDeleteSet   Action = "delete-set"   // Delete the StatefulSet.
	ActionFault       Action = "fault"        // One fault: inject, confirm, hold, heal, confirm healed.
	ActionLoad        Action = "load"         // Let the clients write until Commits more inserts are acknowledged.
	ActionPause       Action = "pause"        // Let time pass, under load.
	ActionPartition   Action = "partition"    // Set the partition of the rolling update.
	ActionRead        Action = "read"         // Read every row of every instance back, while the clients go on.
	ActionRecover     Action = "recover"      // Clone a database that has lost its volume from the first, and catch up.
	ActionRollback    Action = "rollback"     // Give the pod template back as an earlier revision had it.
	ActionScale       Action = "scale"        // Set the replicas of the StatefulSet.
	ActionTamper      Action = "tamper"       // Corrupt data on purpose, behind the workload's back.
	ActionTogether    Action = "together"     // Carry out several sequences of steps beside each other.
	ActionUpdate      Action = "update"       // Give the pod template a new revision.
)

// Actions returns the actions a step can be, in alphabetical order.
func Actions() []Action {
	return []Action{
		ActionAwait, ActionMesh, ActionChecksum, ActionCreateSet, ActionDeleteClaim, ActionDeletePod, ActionDeleteSet,
		ActionFault, ActionLoad, ActionPartition, ActionPause, ActionRead, ActionRecover, ActionRollback, ActionScale,
		ActionTamper, ActionTogether, ActionUpdate,
	}
}

// ChangesSet reports that the action changes the StatefulSet, or deletes or makes it. Such a step can have others
// During it, and waits at its end until the StatefulSet has settled, see WaitSettled.
func (a Action) ChangesSet() bool {
	switch a {
	case ActionCreateSet, ActionDeleteSet, ActionPartition, ActionRollback, ActionScale, ActionUpdate:
		return true
	}
	return false
}

// Step is one numbered step. Exactly the fields its action needs are set.
type Step struct {
	N         int      `json:"n"`
	Do        Action   `json:"do"`
	Commits   int      `json:"commits,omitempty"`   // ActionLoad.
	Fault     *Fault   `json:"fault,omitempty"`     // ActionFault.
	Replicas  *int     `json:"replicas,omitempty"`  // ActionScale.
	Label     string   `json:"label,omitempty"`     // ActionChecksum.
	Tamper    *Tamper  `json:"tamper,omitempty"`    // ActionTamper.
	Await     *Await   `json:"await,omitempty"`     // ActionAwait.
	Update    *Update  `json:"update,omitempty"`    // ActionUpdate.
	Revision  string   `json:"revision,omitempty"`  // ActionRollback: an earlier update's, or RevisionFirst.
	Partition *int     `json:"partition,omitempty"` // ActionPartition.
	Cascade   string   `json:"cascade,omitempty"`   // ActionDeleteSet: one of Cascades.
	Ordinal   *int     `json:"ordinal,omitempty"`   // ActionDeleteClaim, ActionDeletePod, ActionRecover: whose.
	Mesh      *Mesh    `json:"mesh,omitempty"`      // ActionMesh.
	Lasting   Duration `json:"lasting,omitempty"`   // ActionPause.
	During    []Step   `json:"during,omitempty"`    // Of a change: what is done while it is under way.
	Wait      string   `json:"wait,omitempty"`      // Of a change: WaitSettled (also when empty) or WaitObserved.
	Note      string   `json:"note,omitempty"`      // Where the step comes from, for a person to read.
	// Branches are the sequences of ActionTogether. The first error in one of them ends the others, whose faults are
	// healed then.
	Branches [][]Step `json:"branches,omitempty"`
	Bound    Duration `json:"bound"` // The step is given up, and the trial UNKNOWN, after this long.
}

// inner returns the sequences of steps within a step, in their order.
func (s Step) inner() [][]Step {
	switch {
	case s.Fault != nil:
		return [][]Step{s.Fault.Provoke, s.Fault.During}
	case len(s.Branches) > 0:
		return s.Branches
	}
	return [][]Step{s.During}
}

// What a change of the StatefulSet waits for at its end.
const (
	// WaitSettled is until the StatefulSet has come to what was asked of it: exactly its pods are there, all Ready and
	// available, on the revisions that strategy and partition want; or it is gone, with what its deletion takes along.
	WaitSettled = "settled"
	// WaitObserved is until the controller has taken note of the change, whatever comes of it.
	WaitObserved = "observed"
)

// Update is a new revision of the pod template.
type Update struct {
	Revision string `json:"revision"` // Its name; the template bears it as the annotation RevisionAnnotation.
	// Broken is what keeps its pods from being Ready: BrokenImage, BrokenReadiness, or nothing.
	Broken string `json:"broken,omitempty"`
}

const (
	// RevisionFirst is the name of the revision that the StatefulSet is made with. It bears no annotation.
	RevisionFirst = "first"
	// RevisionAnnotation is the annotation of the pod template, and so of the pods, with the name of their revision.
	RevisionAnnotation = "seatrial/revision"
)

// What can be wrong with a revision.
const (
	BrokenImage     = "image"     // Its image is nowhere to be had.
	BrokenReadiness = "readiness" // Its container starts, and its readiness probe fails for ever.
)

// Brokens returns what can be wrong with a revision.
func Brokens() []string { return []string{BrokenImage, BrokenReadiness} }

// Cascades returns what a deletion of the StatefulSet does with its pods: "background" and "foreground" delete them,
// after it and before it, and "orphan" leaves them alone (propagationPolicy).
func Cascades() []string { return []string{"background", CascadeForeground, CascadeOrphan} }

// Two of Cascades.
const (
	CascadeForeground = "foreground"
	CascadeOrphan     = "orphan"
)

// How a StatefulSet replaces pods of an old revision.
const (
	StrategyRolling  = "RollingUpdate"
	StrategyOnDelete = "OnDelete"
)

// Strategy returns how the StatefulSet replaces pods of an old revision.
func (w Workload) Strategy() string {
	if w.UpdateStrategy == "" {
		return StrategyRolling
	}
	return w.UpdateStrategy
}

// What becomes of claims that their pods need no more.
const (
	PolicyRetain = "Retain"
	PolicyDelete = "Delete"
)

// LightName is the name of the workload that Workload.Light goes with.
const LightName = "light"

// Tamper is a corruption on purpose.
type Tamper struct {
	// Kind is "delete-row": delete one acknowledged row with a connection of its own; or "flip-byte": invert one byte
	// of the quiet table's file on the disk, which a server that has the page in memory does not see.
	Kind    string `json:"kind"`
	Ordinal int    `json:"ordinal"`
	Page    int    `json:"page,omitempty"` // Of flip-byte.
	Byte    int    `json:"byte,omitempty"` // Of flip-byte: in the page.
}
