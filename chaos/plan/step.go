package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Action is what a step does.
type Action string

// The actions a step can be.
const (
	ActionAwait       Action = "await"        // Wait until something is seen in the trial's own facts.
	ActionMesh        Action = "chaos-mesh"   // A Chaos Mesh manifest: turned into other steps when the plan is read.
	ActionBackup      Action = "backup"       // Copy what a database has on disk, as of one moment, away from its node.
	ActionChecksum    Action = "checksum"     // Checksum the quiet tables of all instances.
	ActionCreateSet   Action = "create-set"   // Make the StatefulSet again, as it was when it was deleted.
	ActionDeleteClaim Action = "delete-claim" // Delete the claim of one pod. While the pod is there, it stays.
	ActionDeletePod   Action = "delete-pod"   // Delete one pod, with its own grace, whether or not another comes.
	ActionDeleteSet   Action = "delete-set"   // Delete the StatefulSet.
	ActionExec        Action = "exec"         // Run a program in the container of a pod.
	ActionFault       Action = "fault"        // One fault: inject, confirm, hold, heal, confirm healed.
	ActionLoad        Action = "load"         // Let the clients write until Commits more inserts are acknowledged.
	ActionPause       Action = "pause"        // Let time pass, under load.
	ActionPartition   Action = "partition"    // Set the partition of the rolling update.
	ActionRead        Action = "read"         // Read every row of every instance back, while the clients go on.
	ActionRecover     Action = "recover"      // Clone a database that has lost its volume from the first, and catch up.
	ActionRecycle     Action = "recycle"      // Empty the local volumes whose claims are gone, and free them.
	ActionRestore     Action = "restore"      // Give a database the last backup, and what came after it.
	ActionRollback    Action = "rollback"     // Give the pod template back as an earlier revision had it.
	ActionScale       Action = "scale"        // Set the replicas of the StatefulSet.
	ActionTamper      Action = "tamper"       // Corrupt data on purpose, behind the workload's back.
	ActionTogether    Action = "together"     // Carry out several sequences of steps in parallel.
	ActionUpdate      Action = "update"       // Give the pod template a new revision.
	ActionUpgrade     Action = "upgrade"      // Bring a node to another version of Kubernetes.
)

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
	Exec      *Exec    `json:"exec,omitempty"`      // ActionExec.
	Update    *Update  `json:"update,omitempty"`    // ActionUpdate.
	Upgrade   *Upgrade `json:"upgrade,omitempty"`   // ActionUpgrade.
	Revision  string   `json:"revision,omitempty"`  // ActionRollback: an earlier update's, or RevisionFirst.
	Partition *int     `json:"partition,omitempty"` // ActionPartition.
	Cascade   string   `json:"cascade,omitempty"`   // ActionDeleteSet: one of Cascades.
	Ordinal   *int     `json:"ordinal,omitempty"`   // Whose claim, pod or data.
	Mesh      *Mesh    `json:"mesh,omitempty"`      // ActionMesh.
	Lasting   Duration `json:"lasting,omitempty"`   // ActionPause.
	During    []Step   `json:"during,omitempty"`    // Steps during a change of the StatefulSet or an upgrade.
	Wait      string   `json:"wait,omitempty"`      // Of a change: WaitSettled (also when empty) or WaitObserved.
	Note      string   `json:"note,omitempty"`      // Where the step comes from, for a person to read.
	// Branches are the parallel sequences of ActionTogether. The first error in one of them ends the others and heals
	// their faults.
	Branches [][]Step `json:"branches,omitempty"`
	Bound    Duration `json:"bound"` // The step is given up, and the trial UNKNOWN, after this long.
}

// Mesh is a Chaos Mesh manifest as a step of a plan, and what the workload is called in it: the names of the trial's
// own namespace and nodes are not known beforehand.
type Mesh struct {
	// Manifest is one object of chaos-mesh.org/v1alpha1 as JSON. Its namespace stands for the trial's own.
	Manifest json.RawMessage `json:"manifest"`
	// Labels are those that the manifest knows the workload's pods by, beside those that they have.
	Labels map[string]string `json:"labels,omitempty"`
	// Machines are the pods, by ordinal, on whose nodes the physical machines of the manifest are. A machine with the
	// name of a pod is that pod's node.
	Machines map[string]int `json:"machines,omitempty"`
	// Times is how often a Schedule runs; 0 is three times.
	Times int `json:"times,omitempty"`
}

// Tamper is harm on purpose, behind the workload's back.
type Tamper struct {
	// Kind is "delete-row": delete one acknowledged row with a connection of its own; or "flip-byte": invert one byte
	// of the quiet table's file on the disk, which a server that has the page in memory does not see; or "lose-append":
	// take an acknowledged number out of a list of Workload.Transactions; or "lose-write": delete a register of
	// Workload.Registers; or "lose-money": take money from an account of Workload.Transfers; or "drop-table": drop the
	// table that the clients write to, as a careless operator does; or "create-user": create a user on the primary of a
	// semi-synchronous group, which must wait for a replica; or "lose-log": have a later restore of the first instance
	// do without its last binary log; or "second-writer": open a replica for writes and have a client write there.
	Kind string `json:"kind"`
	// Ordinal is that of the victim. In a group only flip-byte and second-writer heed it: delete-row is done on every
	// replica, anything else on the instance that takes writes.
	Ordinal int `json:"ordinal"`
	Page    int `json:"page,omitempty"` // Of flip-byte.
	Byte    int `json:"byte,omitempty"` // Of flip-byte: in the page.
}

// where says whose data is harmed.
func (t Tamper) where(w Workload) string {
	switch {
	case !w.Grouped() || t.Kind == "flip-byte" || t.Kind == "second-writer":
		return w.pod(t.Ordinal)
	case t.Kind == "delete-row":
		return "every replica"
	}
	return "the instance that takes writes"
}

// Exec is a program that is run once, in a pod. It is done when it ended with 0 or as Refused says; else it has failed.
type Exec struct {
	Ordinal   int    `json:"ordinal"`
	Container string `json:"container,omitempty"` // Empty for the workload's, or the only one of a pod.
	// Command is the program, as it is found in the container, and its arguments; no shell reads it.
	Command []string `json:"command"`
	// Refused is part of what the program must write as it ends with another code than 0: the database must refuse what
	// is asked of it. Empty if the program must succeed.
	Refused string `json:"refused,omitempty"`
}

// line is the command in a line: of a long one only the program and the last argument, which says most about it.
func (x Exec) line() string {
	line, last := strings.Join(x.Command, " "), len(x.Command)-1
	if len(line) > 120 && last > 1 {
		return x.Command[0] + " … " + x.Command[last]
	}
	return line
}

// kind is one kind of step: its own field, its rules and its words.
type kind struct {
	do       Action
	field    string // The field that it has beside those of every step; it must be set.
	changes  bool   // It changes the StatefulSet, see Action.ChangesSet.
	during   bool   // It can have steps During it, though it does not change the StatefulSet.
	data     bool   // It needs a workload with data.
	api      bool   // It needs the API server, as all do that change the StatefulSet.
	external bool   // It can be done to a StatefulSet that is not Seatrial's.
	// check adds what is wrong with a step whose own field is set.
	check func(v *validator, at string, s Step, in depth)
	// says describes such a step, and hurts what it damages; nil if it damages nothing.
	says, hurts func(p Plan, s Step) string
}

// kinds returns the kinds of steps, in alphabetical order of their actions.
func kinds() []kind {
	set := func(p Plan) string { return fmt.Sprintf("StatefulSet %q", p.Workload.StatefulSet) }
	victim := func(p Plan, s Step) string { return p.Workload.pod(*s.Ordinal) }
	ordinal := func(v *validator, at string, s Step, _ depth) { v.ordinal(at+".ordinal", *s.Ordinal) }
	return []kind{
		{
			do: ActionAwait, field: "await", external: true,
			check: func(v *validator, at string, s Step, in depth) { v.await(at+".await", *s.Await, in.steps) },
			says:  func(p Plan, s Step) string { return p.describeAwait(*s.Await) },
		},
		{
			do: ActionMesh, field: "mesh",
			check: func(v *validator, at string, _ Step, _ depth) {
				v.Add(at+".do", "give the plan to `seatrial run --plan` or `seatrial plan import`, which do it",
					"the manifest has not been turned into steps")
			},
			says: func(Plan, Step) string { return "a manifest that has not been turned into steps" },
		},
		{
			do: ActionBackup, field: "ordinal",
			check: func(v *validator, at string, s Step, in depth) {
				v.replicated(at)
				ordinal(v, at, s, in)
				v.backup = true
			},
			says: func(p Plan, s Step) string { return "what " + victim(p, s) + " has on disk, as of one moment" },
		},
		{
			do: ActionChecksum, field: "label", data: true, external: true,
			check: func(v *validator, at string, s Step, _ depth) { v.name(at+".label", s.Label) },
			says:  func(_ Plan, s Step) string { return fmt.Sprintf("the quiet tables of all instances, %q", s.Label) },
		},
		{
			do: ActionCreateSet, changes: true,
			check: func(v *validator, _ string, _ Step, _ depth) { v.set.gone, v.set.orphaned = false, false },
			says:  func(p Plan, _ Step) string { return set(p) + ", as it was" },
		},
		{
			do: ActionDeleteClaim, field: "ordinal", api: true, check: ordinal,
			says:  func(p Plan, s Step) string { return "that of " + victim(p, s) },
			hurts: func(p Plan, s Step) string { return "the claim of " + victim(p, s) + ", for good: deleted" },
		},
		{
			do: ActionDeletePod, field: "ordinal", api: true, external: true,
			check: func(v *validator, at string, s Step, in depth) {
				ordinal(v, at, s, in)
				v.set.changed = true
			},
			says:  victim,
			hurts: func(p Plan, s Step) string { return victim(p, s) + ": deleted" },
		},
		{
			do: ActionDeleteSet, field: "cascade", changes: true,
			check: func(v *validator, at string, s Step, _ depth) {
				v.OneOf(at+".cascade", "cascade", s.Cascade, CascadeBackground, CascadeForeground, CascadeOrphan)
				v.set.gone, v.set.orphaned = true, s.Cascade == CascadeOrphan
			},
			says: func(p Plan, s Step) string {
				pods := map[string]string{CascadeBackground: "its pods after it",
					CascadeForeground: "its pods before it",
					CascadeOrphan:     "not its pods"}
				return set(p) + ", " + pods[s.Cascade]
			},
			hurts: func(p Plan, s Step) string { return set(p) + ": deleted, " + s.Cascade },
		},
		{
			do: ActionExec, field: "exec", api: true, external: true, check: (*validator).exec,
			says: func(p Plan, s Step) string {
				says := fmt.Sprintf("%.120q in %s", s.Exec.line(), p.Workload.pod(s.Exec.Ordinal))
				if s.Exec.Refused != "" {
					says += fmt.Sprintf(", which is refused: %.120q", s.Exec.Refused)
				}
				return says
			},
			hurts: func(p Plan, s Step) string {
				return fmt.Sprintf("%s, by %q: nothing undoes it", p.Workload.pod(s.Exec.Ordinal), s.Exec.Command[0])
			},
		},
		{
			do: ActionFault, field: "fault", external: true, check: (*validator).fault, says: Plan.describeFault,
			hurts: func(p Plan, s Step) string {
				return fmt.Sprintf("the node of %s, by %s%s: %s once shown", p.Workload.pod(s.Fault.Ordinal),
					s.Fault.Name, s.Fault.Params.note(), s.Fault.Hold)
			},
		},
		{
			do: ActionLoad, field: "commits", data: true, external: true,
			check: func(v *validator, at string, s Step, _ depth) {
				v.Range(at+".commits", s.Commits, 1, math.MaxInt32)
			},
			says: func(_ Plan, s Step) string { return Count(s.Commits, "acknowledged insert") + " more" },
		},
		{
			do: ActionPartition, field: "partition", changes: true, check: (*validator).partition,
			says: func(p Plan, s Step) string { return fmt.Sprintf("of %s to %d", set(p), *s.Partition) },
		},
		{
			do: ActionPause, field: "lasting", external: true,
			check: func(v *validator, at string, s Step, _ depth) {
				v.lasting(at+".lasting", s.Lasting)
				if s.Lasting >= s.Bound {
					v.Add(at+".lasting", "pause for less, or raise the bound",
						"%s does not fit into the step's bound of %s", s.Lasting, s.Bound)
				}
			},
			says: func(_ Plan, s Step) string { return fmt.Sprintf("%s, under load", s.Lasting) },
		},
		{
			do: ActionRead, data: true, external: true, check: func(*validator, string, Step, depth) {},
			says: func(Plan, Step) string { return "every row of every instance, back" },
		},
		{
			do: ActionRecover, field: "ordinal",
			check: func(v *validator, at string, s Step, in depth) {
				switch {
				case !v.replicated(at):
				case *s.Ordinal == v.work.Start:
					v.Add(at+".ordinal", "use a higher one", "%d is the first, which the others are copies of",
						*s.Ordinal)
				default:
					v.victim(at)
					ordinal(v, at, s, in)
				}
			},
			says: func(p Plan, s Step) string {
				return victim(p, s) + ", cloned from the first instance, and caught up by GTID"
			},
		},
		{
			do: ActionRecycle, api: true,
			check: func(v *validator, at string, _ Step, _ depth) {
				if v.work.StorageName() != StorageLocal {
					v.Add(at+".do", fmt.Sprintf("leave the step out, or use workload.storage: %q", StorageLocal),
						"volumes of storage %q are deleted with their claims", v.work.StorageName())
				}
			},
			says:  func(Plan, Step) string { return "the volumes whose claims are gone, emptied and free again" },
			hurts: func(Plan, Step) string { return "the data on volumes whose claims are gone, for good: deleted" },
		},
		{
			do: ActionRestore, field: "ordinal",
			check: func(v *validator, at string, s Step, in depth) {
				v.replicated(at)
				v.victim(at)
				ordinal(v, at, s, in)
				if !v.backup {
					v.Add(at+".do", "put a backup step before it", "there is no backup at this step")
				}
			},
			says: func(p Plan, s Step) string {
				if *s.Ordinal == p.Workload.Start {
					return victim(p, s) + " to the moment before its table was dropped: a copy is restored from the " +
						"backup, brought forward by GTID, and cloned"
				}
				return victim(p, s) + " from the backup, and caught up by GTID"
			},
			hurts: func(p Plan, s Step) string { return "the data of " + victim(p, s) + ": replaced by the backup" },
		},
		{
			do: ActionRollback, field: "revision", changes: true, check: (*validator).rollback,
			says: func(p Plan, s Step) string { return fmt.Sprintf("%s to revision %q", set(p), s.Revision) },
		},
		{
			do: ActionScale, field: "replicas", changes: true, external: true, check: (*validator).scale,
			says: func(p Plan, s Step) string { return set(p) + " to " + Count(*s.Replicas, "replica") },
		},
		{
			do: ActionTamper, field: "tamper", data: true, check: (*validator).tamper,
			says: func(p Plan, s Step) string {
				text := fmt.Sprintf("%s in %s", s.Tamper.Kind, s.Tamper.where(p.Workload))
				if s.Tamper.Page != 0 {
					text += fmt.Sprintf(", byte %d of page %d", s.Tamper.Byte, s.Tamper.Page)
				}
				return text
			},
			hurts: func(p Plan, s Step) string {
				return fmt.Sprintf("the data of %s, for good: %s", s.Tamper.where(p.Workload), s.Tamper.Kind)
			},
		},
		{
			do: ActionTogether, field: "branches", external: true, check: (*validator).together,
			says: func(_ Plan, s Step) string { return Count(len(s.Branches), "sequence") + " beside each other:" },
		},
		{
			do: ActionUpdate, field: "update", changes: true, check: (*validator).update,
			says: func(p Plan, s Step) string {
				how := map[string]string{
					BrokenImage: ", whose image is nowhere to be had", BrokenReadiness: ", whose pods are never Ready",
					BrokenStartup: ", whose pods never start up"}
				return fmt.Sprintf("%s to revision %q%s", set(p), s.Update.Revision, how[s.Update.Broken])
			},
		},
		{
			do: ActionUpgrade, field: "upgrade", during: true, api: true, check: (*validator).upgrade,
			says:  Plan.describeUpgrade,
			hurts: func(p Plan, s Step) string { return p.Upgraded(*s.Upgrade) + ": upgraded to " + s.Upgrade.To },
		},
	}
}

func kindOf(do Action) (kind, bool) {
	all := kinds()
	i := slices.IndexFunc(all, func(k kind) bool { return k.do == do })
	if i < 0 {
		return kind{}, false
	}
	return all[i], true
}

// whole returns the kind of a step, and whether it is known and the step has its field.
func (s Step) whole() (kind, bool) {
	k, ok := kindOf(s.Do)
	return k, ok && (k.field == "" || slices.Contains(own(s), k.field))
}

// Actions returns the actions a step can be, in alphabetical order.
func Actions() []Action {
	var actions []Action
	for _, k := range kinds() {
		actions = append(actions, k.do)
	}
	return actions
}

// ChangesSet reports that the action changes the StatefulSet, or deletes or makes it. Such a step can have others
// During it, and waits at its end until the StatefulSet has settled, see WaitSettled.
func (a Action) ChangesSet() bool {
	k, _ := kindOf(a)
	return k.changes
}

// Field returns the field that a step with the action must have beside those of every step; empty for none.
func (a Action) Field() string {
	k, _ := kindOf(a)
	return k.field
}

// NeedsData reports whether an action needs a workload with data.
func (a Action) NeedsData() bool {
	k, _ := kindOf(a)
	return k.data
}

// Describe says in one line what a step of the plan does.
func (p Plan) Describe(s Step) string {
	k, ok := s.whole()
	if !ok {
		return string(s.Do)
	}
	text := string(s.Do) + ": " + k.says(p, s)
	if k.changes && s.Wait == WaitObserved {
		text += ", not waiting for it"
	}
	if k.changes && len(s.During) > 0 {
		text += "; meanwhile:"
	}
	return text
}

// own returns the fields of a step that are set and that not every step has.
func own(s Step) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(SetFields(s))), func(name string) bool {
		return slices.Contains([]string{"n", "do", "during", "wait", "note", "bound"}, name)
	})
}

// The limits of steps within each other.
const (
	MaxDepth    = 4 // How many steps can be within each other.
	MaxBranches = 8 // How many sequences can be beside each other.
)

// depth is what a step is within: how many other steps, and how many of them are faults.
type depth struct{ steps, faults int }

func (in depth) step() depth  { return depth{in.steps + 1, in.faults} }
func (in depth) fault() depth { return depth{in.steps + 1, in.faults + 1} }

func (v *validator) steps(at string, steps []Step, in depth) {
	for i, s := range steps {
		v.step(fmt.Sprintf("%s[%d]", at, i), s, in)
	}
}

func (v *validator) step(at string, s Step, in depth) {
	v.lasting(at+".bound", s.Bound)
	v.note(at+".note", s.Note)
	k, ok := kindOf(s.Do)
	if !ok {
		known := make([]string, 0, len(kinds()))
		for _, a := range Actions() {
			known = append(known, string(a))
		}
		v.OneOf(at+".do", "action", string(s.Do), known...)
		return
	}
	switch {
	case !v.work.Grouped():
	case s.Do == ActionDeleteSet || s.Do == ActionCreateSet:
		v.Add(at+".do", "leave the step out, or workload.topology",
			"%s ends the group, which topology %q does not begin again", s.Do, v.work.Topology)
	case s.Do == ActionScale && s.Replicas != nil && *s.Replicas < leastGrouped:
		v.Add(at+".replicas", "use 3 or more", fewGrouped, *s.Replicas, v.work.Topology)
	}
	has := own(s)
	for _, name := range has {
		if name != k.field {
			owner := kinds()[slices.IndexFunc(kinds(), func(k kind) bool { return k.field == name })]
			v.Add(at+"."+name, fmt.Sprintf("leave it out, or use do: %q", owner.do), "is set in a %q step", s.Do)
		}
	}
	if !k.changes && s.Wait != "" {
		v.Add(at+".wait", "leave it out", "a %q step does not change the StatefulSet", s.Do)
	}
	if !k.changes && !k.during && len(s.During) > 0 {
		v.Add(at+".during", "leave it out, or use fault.during", "a %q step does not change the StatefulSet", s.Do)
	}
	if k.field != "" && !slices.Contains(has, k.field) {
		v.Add(at+"."+k.field, "set it", "is missing in a %q step", s.Do)
		return
	}
	v.spares(at, s, k)
	v.attached(at, s)
	switch {
	case k.data && v.work.Light:
		v.Add(at+".do", "leave the step out", "a light workload has no data to %s", s.Do)
	case k.changes:
		v.change(at, s, in, k)
	default:
		if k.data {
			v.victim(at)
		}
		k.check(v, at, s, in)
	}
	v.fits(at, s)
}

// note checks that a note is one line of printable text: it is shown on terminals.
func (v *validator) note(at, note string) {
	const most = 400
	switch {
	case len(note) > most:
		v.Add(at, fmt.Sprintf("use at most %d bytes", most), "has %d bytes", len(note))
	case strings.ContainsFunc(note, func(r rune) bool { return !unicode.IsPrint(r) }):
		v.Add(at, "use one line of printable text", "%q cannot be printed", note)
	}
}

// tooDeep checks that steps are not within too many others.
func (v *validator) tooDeep(at string, in depth, steps ...[]Step) bool {
	deep := in.steps >= MaxDepth && slices.ContainsFunc(steps, func(s []Step) bool { return len(s) > 0 })
	if deep {
		v.Add(at, "leave it out", "is within %d steps already", in.steps)
	}
	return deep
}

// fits checks that what is within a step, and what it waits for, does not take longer than its bound allows.
func (v *validator) fits(at string, s Step) {
	least := s.Least()
	if least < s.Bound.D() || s.Bound <= 0 || s.Lasting >= s.Bound || s.Fault != nil && s.Fault.Hold >= s.Bound {
		return // Another error says so.
	}
	v.Add(at+".bound", "raise it, or shorten what is within", "what is planned takes %s at least, which does not fit "+
		"into %s", least, s.Bound)
}

// Least returns the shortest time that a step can take, as far as the plan says.
func (s Step) Least() time.Duration {
	least := max(s.Lasting.D(), 0)
	for _, inner := range s.inner() {
		all := time.Duration(0)
		for _, within := range *inner.steps {
			all = sum(all, within.Least())
		}
		if s.Do == ActionTogether {
			least = max(least, all)
		} else {
			least = sum(least, all)
		}
	}
	if s.Fault != nil {
		least = sum(least, s.Fault.Hold.D())
	}
	if a := s.Await; a != nil {
		least = sum(least, sum(a.Lasting.D(), a.Delay.D()))
		if a.For == AwaitTime && a.Since == SinceStep {
			least = sum(least, a.After.D())
		}
	}
	return least
}

// sum adds what is not negative of two durations, and stays at the longest there is.
func sum(a, b time.Duration) time.Duration {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Given returns a text in a format, "" if the text is empty.
func Given(format, text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf(format, text)
}

// Count says how many there are of something.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// replicated reports that instances are copies of the first, and adds what is wrong if they are not.
func (v *validator) replicated(at string) bool {
	if !v.work.Replicated {
		v.Add(at+".do", "leave the step out, or set workload.replicated", "no instance has the data of another")
	}
	return v.work.Replicated
}

func (v *validator) tamper(at string, s Step, _ depth) {
	at += ".tamper"
	t := s.Tamper
	v.OneOf(at+".kind", "tampering", t.Kind, "create-user", "delete-row", "drop-table", "flip-byte",
		"lose-append", "lose-log", "lose-money", "lose-write", "second-writer")
	if t.Kind == "create-user" && v.work.TopologyName() != TopologySemiSync {
		v.Add(at+".kind", "set workload.topology to semisync", "%q: nothing waits for a replica", t.Kind)
	}
	switch {
	case t.Kind == "delete-row" && v.work.Multi():
		v.Add(at+".kind", "use another topology", "%q: topology %q has no replicas to delete it on", t.Kind,
			v.work.Topology)
	case t.Kind == "second-writer" && (!v.work.Grouped() || v.work.Multi()):
		v.Add(at+".kind", "set another workload.topology", "%q: each instance takes writes", t.Kind)
	case t.Kind == "lose-log" && !v.work.Replicated:
		v.Add(at+".kind", "set workload.replicated", "%q: nothing is restored by binary logs", t.Kind)
	case t.Kind == "lose-append" && v.work.Transactions == 0:
		v.Add(at+".kind", "set workload.transactions", "%q: without transactions there are no lists", t.Kind)
	case t.Kind == "lose-write" && v.work.Registers == 0:
		v.Add(at+".kind", "set workload.registers", "%q: there are no registers", t.Kind)
	case t.Kind == "lose-money" && v.work.Transfers == 0:
		v.Add(at+".kind", "set workload.transfers", "%q: there are no accounts", t.Kind)
	}
	v.ordinal(at+".ordinal", t.Ordinal)
	if t.Kind != "flip-byte" {
		v.only(at, t, []string{"kind", "ordinal"}, "%q does not take it", t.Kind)
		return
	}
	// The page's checksum does not cover all of the bytes before and after these.
	v.Range(at+".page", t.Page, 1, math.MaxInt32)
	v.Range(at+".byte", t.Byte, 38, 16384-9)
}

func (v *validator) exec(at string, s Step, _ depth) {
	at += ".exec"
	v.victim(at)
	v.ordinal(at+".ordinal", s.Exec.Ordinal)
	if s.Exec.Container != "" {
		v.label(at+".container", s.Exec.Container)
	}
	v.command(at+".command", s.Exec.Command)
	if n := len(s.Exec.Refused); n > maxDetail {
		v.Add(at+".refused", "give a part of the message", "%d bytes, at most %d", n, maxDetail)
	}
}

// together checks parallel sequences: at most one of them changes the StatefulSet, and the others use only the pods
// that exist during all of its changes.
func (v *validator) together(at string, s Step, in depth) {
	if n := len(s.Branches); n < 2 || n > MaxBranches {
		v.Add(at+".branches", fmt.Sprintf("use 2 to %d", MaxBranches), "%d branches", n)
	}
	if v.tooDeep(at+".branches", in, s.Branches...) {
		return
	}
	before, changing := v.set, -1
	after, low := before, before.reach
	for _, st := range s.Within() {
		if st.Do == ActionScale && st.Replicas != nil {
			low = min(low, max(*st.Replicas, 0))
		}
	}
	for i, branch := range s.Branches {
		field := fmt.Sprintf("%s.branches[%d]", at, i)
		if len(branch) == 0 {
			v.Add(field, "add steps, or leave it out", "is empty")
		}
		v.set = before
		all := flatten(nil, branch)
		switch {
		case !slices.ContainsFunc(all, func(st Step) bool { return st.Do.ChangesSet() }):
			v.set.reach = low
		case changing >= 0:
			v.Add(field, "put all changes into one branch", "the StatefulSet is changed in branches[%d] as well",
				changing)
		default:
			changing = i
		}
		if slices.ContainsFunc(all, func(st Step) bool {
			return st.Do == ActionDeleteSet || st.Do == ActionCreateSet
		}) {
			v.Add(field, "do it before or after", "the StatefulSet is deleted or made beside other steps")
		}
		v.steps(field, branch, in.step())
		if changing == i {
			after = v.set
		}
	}
	v.set = after
}
