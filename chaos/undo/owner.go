// Package undo ends faults without the harness that made them. Whatever a fault leaves bears the mark of its owner (run
// and step); before the act an undo is armed that fires by itself; heal finds and undoes what is left, by owner mark,
// and never touches what others made. The journal keeps how far every fault has come.
package undo

import (
	"fmt"
	"hash/fnv"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// AgentPath is where the agent is on every node.
const AgentPath = "/usr/local/bin/seatrial-agent"

// The beginnings of all names of ours. Nothing else is ever undone.
const (
	tablePrefix = "seatrial_"
	unitPrefix  = "seatrial-heal-"
	namePrefix  = "seatrial-"
)

// DiskPath is where the shared disk's program is on every node that has its CSI driver, and DiskStates is where the
// driver keeps its state there: one directory for its node service, one for its controller.
const (
	DiskPath   = "/usr/local/bin/seatrial-disk"
	DiskStates = "/var/lib/seatrial/disk/"
)

// HeldDir is where a node keeps what faults hold on it, as long as they do: one directory for each owner, by its Name.
const HeldDir = "/var/lib/seatrial/held/"

// The annotations by which API objects tell what a fault did to them. Their values are owners' names.
const (
	APIPrefix    = "seatrial/"
	Cordon       = APIPrefix + "cordon"         // Of a Node: it was made unschedulable.
	OutOfService = APIPrefix + "out-of-service" // Of a Node: it was tainted so.
)

// OwnerLabel is the label by which an experiment of Chaos Mesh is known as ours. Its value is the owner's name.
const OwnerLabel = APIPrefix + "owner"

// MeshGroup and MeshVersion are those of Chaos Mesh's API.
const (
	MeshGroup   = "chaos-mesh.org"
	MeshVersion = "v1alpha1"
)

// MeshKinds are the resources of Chaos Mesh that a fault can be: nothing of ours is among the others.
func MeshKinds() []string {
	return []string{"iochaos", "networkchaos", "podchaos", "stresschaos", "timechaos"}
}

// TimerPattern matches the names of all dead-man timers, for systemctl.
const TimerPattern = unitPrefix + "*.timer"

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

// Unit is the name of the owner's dead-man unit, without a suffix.
func (o Owner) Unit() string { return fmt.Sprintf("%s%s-%d", unitPrefix, o.Run, o.Step) }

// Timer is the name of the owner's dead-man timer.
func (o Owner) Timer() string { return o.Unit() + ".timer" }

// Name is the owner's name for what has no grammar of its own: a fault point, the value of an annotation.
func (o Owner) Name() string { return fmt.Sprintf("%s%s-%d", namePrefix, o.Run, o.Step) }

// Finalizer is the owner's finalizer on an API object.
func (o Owner) Finalizer() string { return APIPrefix + o.Name() }

// FromFinalizer returns the owner of a finalizer, and whether it is one of ours.
func FromFinalizer(name string) (Owner, bool) {
	rest, ok := strings.CutPrefix(name, APIPrefix)
	if !ok {
		return Owner{}, false
	}
	return FromName(rest)
}

// Held is the path of the mark that the owner holds a thing on a node.
func (o Owner) Held(thing string) string { return path.Join(HeldDir, o.Name(), thing) }

// Qdisc is the owner's handle of queueing disciplines, "5ea:": their only name. Those that the kernel gives by itself
// begin at 8000 (tc(8)).
func (o Owner) Qdisc() string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(o.Name())) // It cannot fail (package hash).
	return fmt.Sprintf("%x:", 1+sum.Sum32()%0x7fff)
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

// FromTimer returns the owner of a dead-man timer, and whether it is one of ours.
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
