// Package undo ends faults, also without the harness that made them. Before a fault acts, the commands that undo it are
// stored on the node in a file named after the owner (run and step), and a timer carries them out at the deadline. Heal
// carries out the same files. Everything a fault makes bears its owner's mark; nothing else is touched. The journal
// records the stage of every fault.
package undo

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
)

// The prefixes of all our names. Nothing else is ever undone.
const (
	tablePrefix = "seatrial_"
	unitPrefix  = "seatrial-heal-"
	namePrefix  = "seatrial-"
	timerExt    = ".timer"
)

// The annotations on Nodes that faults changed. Their values are owners' names.
const (
	APIPrefix    = "seatrial/"
	Cordon       = APIPrefix + "cordon"         // Made unschedulable.
	OutOfService = APIPrefix + "out-of-service" // Tainted out of service.
)

// OwnerLabel marks our Chaos Mesh experiments. Its value is the owner's name.
const OwnerLabel = APIPrefix + "owner"

// runRule is the grammar of run ids: what nftables and systemd both take in a name without quoting. An underscore would
// be ambiguous in the name of a table.
var runRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,99}$`)

// Owner is the run and step that made something on a node.
type Owner struct {
	Run  string `json:"run"`
	Step int    `json:"step"`
}

// Check returns an error for an owner whose names would be ambiguous.
func (o Owner) Check() error {
	if !runRule.MatchString(o.Run) {
		return fmt.Errorf("run id %q: use letters, digits, dots and hyphens, at most 100", o.Run)
	}
	if o.Step < 0 {
		return fmt.Errorf("step %d of run %q: use 0 or more", o.Step, o.Run)
	}
	return nil
}

// Table is the name of the owner's nftables table.
func (o Owner) Table() string { return fmt.Sprintf("%s%s_%d", tablePrefix, o.Run, o.Step) }

// Unit is the name of the owner's undo unit, without a suffix.
func (o Owner) Unit() string { return fmt.Sprintf("%s%s-%d", unitPrefix, o.Run, o.Step) }

// Timer is the name of the owner's undo timer.
func (o Owner) Timer() string { return o.Unit() + timerExt }

// Name is the owner's name where no other grammar applies: a fault point, the value of an annotation.
func (o Owner) Name() string { return fmt.Sprintf("%s%s-%d", namePrefix, o.Run, o.Step) }

// Qdisc is the owner's handle of queueing disciplines, "5ea:", which is all that names them. The kernel's own begin at
// 8000 (tc(8)).
func (o Owner) Qdisc() string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(o.Name())) // It cannot fail (package hash).
	return fmt.Sprintf("%x:", 1+sum.Sum32()%0x7fff)
}

// Only selects owners; nil selects all.
type Only = *Owner

// Of selects one step of a run, or all steps if step is 0 or less.
func Of(run string, step int) Only { return &Owner{Run: run, Step: max(step, 0)} }

// In reports whether the owner is selected.
func (o Owner) In(only Only) bool {
	return only == nil || o.Run == only.Run && (only.Step == 0 || o.Step == only.Step)
}

// Flags are the agent's flags that name the owner.
func (o Owner) Flags() []string { return []string{"--run", o.Run, "--step", strconv.Itoa(o.Step)} }

func flagsOf(only Only) []string {
	if only == nil {
		return nil
	}
	return only.Flags()
}

// FromName returns the owner that a name stands for, and whether it is one of ours.
func FromName(name string) (Owner, bool) { return ownerOf(name, namePrefix, "-", Owner.Name) }

// FromTable returns the owner of an nftables table, and whether it is one of ours.
func FromTable(name string) (Owner, bool) { return ownerOf(name, tablePrefix, "_", Owner.Table) }

// FromTimer returns the owner of an undo timer, and whether it is one of ours.
func FromTimer(name string) (Owner, bool) { return ownerOf(name, unitPrefix, "-", Owner.Timer) }

// ownerOf reads the step from behind the last separator. A name that the owner would not have made itself, such as one
// with a step of "007", is not ours.
func ownerOf(name, prefix, separator string, of func(Owner) string) (Owner, bool) {
	rest := strings.TrimSuffix(strings.TrimPrefix(name, prefix), timerExt)
	i := strings.LastIndex(rest, separator)
	if i < 0 {
		return Owner{}, false
	}
	step, err := strconv.Atoi(rest[i+1:])
	o := Owner{Run: rest[:i], Step: step}
	if err != nil || o.Check() != nil || of(o) != name {
		return Owner{}, false
	}
	return o, true
}
