// Package undo ends faults without the harness that made them. Before the act, the commands that undo it lie on the
// node as a file named after its owner (run and step), and a timer carries them out at the deadline. Heal carries out
// the same files. Whatever a fault leaves bears its owner's mark; what others made is never touched. The journal keeps
// how far every fault has come.
package undo

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
)

// The beginnings of all names of ours. Nothing else is ever undone.
const (
	tablePrefix = "seatrial_"
	unitPrefix  = "seatrial-heal-"
	namePrefix  = "seatrial-"
)

// The annotations by which Nodes tell what a fault did to them. Their values are owners' names.
const (
	APIPrefix    = "seatrial/"
	Cordon       = APIPrefix + "cordon"         // It was made unschedulable.
	OutOfService = APIPrefix + "out-of-service" // It was tainted so.
)

// OwnerLabel is the label by which an experiment of Chaos Mesh is known as ours. Its value is the owner's name.
const OwnerLabel = APIPrefix + "owner"

// runRule is the grammar of run ids: what nftables and systemd both take in a name, so that no quoting is ever
// needed. An underscore is left out because it ends the run id in the name of a table.
var runRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,99}$`)

// Owner says to which run and step a thing on a node belongs.
type Owner struct {
	Run  string `json:"run"`
	Step int    `json:"step"`
}

// Check returns an error for an owner whose names could not be told from others.
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
func (o Owner) Timer() string { return o.Unit() + ".timer" }

// Name is the owner's name for what has no grammar of its own: a fault point, the value of an annotation.
func (o Owner) Name() string { return fmt.Sprintf("%s%s-%d", namePrefix, o.Run, o.Step) }

// Qdisc is the owner's handle of queueing disciplines, "5ea:": their only name. Those that the kernel gives by itself
// begin at 8000 (tc(8)).
func (o Owner) Qdisc() string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(o.Name())) // It cannot fail (package hash).
	return fmt.Sprintf("%x:", 1+sum.Sum32()%0x7fff)
}

// Only selects whose undos are meant; nil selects all.
type Only = *Owner

// Of selects those of one run; a step of 0 or less means all of its steps.
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
func FromName(name string) (Owner, bool) {
	rest, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return Owner{}, false
	}
	return split(rest, "-")
}

// FromTable returns the owner of an nftables table, and whether it is one of ours.
func FromTable(name string) (Owner, bool) {
	rest, ok := strings.CutPrefix(name, tablePrefix)
	if !ok {
		return Owner{}, false
	}
	return split(rest, "_")
}

// FromTimer returns the owner of an undo timer, and whether it is one of ours.
func FromTimer(name string) (Owner, bool) {
	rest, ok := strings.CutPrefix(name, unitPrefix)
	if !ok {
		return Owner{}, false
	}
	rest, ok = strings.CutSuffix(rest, ".timer")
	if !ok {
		return Owner{}, false
	}
	return split(rest, "-")
}

// split takes the step from behind the last separator. A name that the owner would not have made itself, such as one
// with a step of "007", is not ours.
func split(s, separator string) (Owner, bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return Owner{}, false
	}
	step, err := strconv.Atoi(s[i+1:])
	o := Owner{Run: s[:i], Step: step}
	if err != nil || o.Check() != nil || strconv.Itoa(step) != s[i+1:] {
		return Owner{}, false
	}
	return o, true
}
