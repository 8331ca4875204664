package plan

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Await is what a step waits for. Exactly the fields that it needs are set.
type Await struct {
	For     string `json:"for"`           // One of Awaits.
	RPC     string `json:"rpc,omitempty"` // Of a CSI call: the method's name.
	Ordinal int    `json:"ordinal"`       // Whose pod, volume or claim; 0 for what concerns none of them.
	// Lasting is for how long no pod may change (AwaitStill).
	Lasting Duration `json:"lasting,omitempty"`
	Object  *Match   `json:"object,omitempty"`  // AwaitObject.
	Place   string   `json:"place,omitempty"`   // Of a mount: PlacePod or PlaceGlobal; empty for either.
	Commits int      `json:"commits,omitempty"` // AwaitCommits.
	After   Duration `json:"after,omitempty"`   // AwaitTime.
	Step    int      `json:"step,omitempty"`    // AwaitFault: the fault's.
	Stage   string   `json:"stage,omitempty"`   // AwaitFault: one of Stages; StageConfirmed when empty.
	Version string   `json:"version,omitempty"` // AwaitVersion: one that the plan upgrades to.
	// Since says since when occurrences count; each await has its own default.
	Since string `json:"since,omitempty"`
	// Count selects the nth occurrence; 0 means the first.
	Count int `json:"count,omitempty"`
	// Delay is for how long the step waits after the occurrence.
	Delay Duration `json:"delay,omitempty"`
}

// Since when occurrences, and times, count.
const (
	SinceTrial = "trial" // The trial began, before anything was made.
	SinceSteps = "steps" // The first step of the plan began.
	SinceStep  = "step"  // The step that waits began.
)

// Where a volume is mounted.
const (
	PlacePod    = "pod"    // Where the kubelet has it for a pod.
	PlaceGlobal = "global" // Where the kubelet has a CSI volume for all pods of a node.
)

// The stages of a fault, as in the history.
const (
	StageInjected  = "injected"
	StageConfirmed = "confirmed"
	StageHealed    = "healed"
	StageGone      = "confirmedHealed"
)

// Stages returns the stages of a fault, in order.
func Stages() []string { return []string{StageInjected, StageConfirmed, StageHealed, StageGone} }

// What a step can wait for. Facts of the trial and of the API watch count since the last change of the StatefulSet in
// the same sequence began; without one, since the enclosing step or the first step of the plan began. A state that the
// pod had then does not count. Facts of a CSI driver or a node, and that a pod moved, count since the enclosing step
// began.
const (
	AwaitClaimGone = "claim-gone" // The claim of an ordinal is deleted.
	AwaitCommits   = "commits"    // So many inserts more are acknowledged.
	AwaitCreated   = "created"    // A pod is made.
	AwaitCSIBegin  = "csi-begin"  // A call of RPC for the volume began.
	AwaitCSIEnd    = "csi-end"    // A call of RPC for the volume ended with OK.
	AwaitFault     = "fault"      // The fault of another step reaches a stage. Since has no effect.
	AwaitGone      = "gone"       // A pod is deleted: it is gone from the API server.
	AwaitMount     = "mount"      // A volume is mounted on a node, says the mount ledger.
	// AwaitMoved waits until the pod came up on another node than when the enclosing step began: it is Ready there, or
	// its container has ended there, as a database does that finds its files damaged.
	AwaitMoved       = "moved"
	AwaitNotReady    = "not-ready"   // The node that ran the pod when the enclosing step began is not Ready.
	AwaitObject      = "object"      // An API object matches and did not before, or is created so.
	AwaitPending     = "pending"     // The scheduler finds no node for a pod.
	AwaitReady       = "ready"       // A pod is Ready.
	AwaitScheduled   = "scheduled"   // A pod is given a node.
	AwaitSettled     = "settled"     // The StatefulSet is as last requested, see WaitSettled.
	AwaitStill       = "still"       // No pod was created, deleted, or asked to end, for as long as Lasting.
	AwaitTerminating = "terminating" // A pod gets its deletionTimestamp.
	AwaitTime        = "time"        // After has passed. With Since "step" it is a pause.
	AwaitUnmount     = "unmount"     // A mount of a volume on a node ends, says the mount ledger.
	AwaitUnready     = "unready"     // A pod's containers are started, or cannot be, and it is not Ready.
	AwaitVersion     = "version"     // The API server tells its version, within an upgrade.
	AwaitUpdated     = "updated"     // A pod of the revision that was last asked for is Ready.
	AwaitWrites      = "writes"      // A pod acknowledges an insert: in a group, it is the primary.
)

type await struct {
	name string
	// says describes it; {pod} and the names of fields in braces are filled in.
	says string
	// fields are the fields of Await that it takes, beside those that all take.
	fields string
	whole  bool // It is not about a single pod.
	moment bool // It is a moment in the life of a pod or a claim, seen by the API watch.
	within bool // It can only be awaited within another step.
}

// awaits returns what can be awaited, in alphabetical order.
func awaits() []await {
	const often = "since count"
	moment := func(name, says string) await { return await{name: name, says: says, fields: often, moment: true} }
	return []await{
		moment(AwaitClaimGone, "the claim of {pod} is deleted"),
		{name: AwaitCommits, says: "{commits}", fields: "commits since", whole: true},
		moment(AwaitCreated, "{pod} is made"),
		{name: AwaitCSIBegin, says: "{rpc} of the volume of {pod} begins", fields: "rpc " + often, within: true},
		{name: AwaitCSIEnd, says: "{rpc} of the volume of {pod} ends with OK", fields: "rpc " + often, within: true},
		{name: AwaitFault, says: "the fault of step {step} is {stage}", fields: "step stage", whole: true,
			within: true},
		moment(AwaitGone, "{pod} is gone from the API"),
		{name: AwaitMount, says: "the volume of {pod} is mounted{place}", fields: "place " + often},
		{name: AwaitMoved, says: "{pod} came up on another node", within: true},
		{name: AwaitNotReady, says: "the node of {pod} is not Ready", within: true},
		{name: AwaitObject, says: "{object}", fields: "object " + often, whole: true},
		moment(AwaitPending, "the scheduler finds no node for {pod}"),
		moment(AwaitReady, "{pod} is Ready"),
		moment(AwaitScheduled, "{pod} is given a node"),
		{name: AwaitSettled, says: "the StatefulSet has come to what was asked of it", whole: true},
		{name: AwaitStill, says: "no pod is made, ended or told to end for {lasting}", fields: "lasting", whole: true},
		moment(AwaitTerminating, "{pod} gets its deletionTimestamp"),
		{name: AwaitTime, says: "{after} after {since}", fields: "after since", whole: true},
		{name: AwaitUnmount, says: "the volume of {pod} is unmounted{place}", fields: "place " + often},
		moment(AwaitUnready, "{pod} has been started and is not Ready"),
		moment(AwaitUpdated, "{pod} is Ready on the revision asked for"),
		{name: AwaitVersion, says: "the API server tells that it is {version}", fields: "version", whole: true,
			within: true},
		{name: AwaitWrites, says: "{pod} acknowledges an insert", fields: often},
	}
}

// Awaits returns the names of what a step can wait for, in alphabetical order.
func Awaits() []string {
	var names []string
	for _, a := range awaits() {
		names = append(names, a.name)
	}
	return names
}

// about returns the entry of awaits; one without a name if For is not known.
func (a Await) about() await {
	all := awaits()
	i := slices.IndexFunc(all, func(known await) bool { return known.name == a.For })
	if i < 0 {
		return await{}
	}
	return all[i]
}

// Moment reports whether the step waits for a moment in the life of a pod or a claim, seen by the API watch.
func (a Await) Moment() bool { return a.about().moment }

// CSIRPCs returns the methods of a CSI driver that a plan can name (CSI specification 1.11).
func CSIRPCs() []string {
	return []string{
		"ControllerPublishVolume", "ControllerUnpublishVolume", "CreateVolume", "DeleteVolume",
		"NodePublishVolume", "NodeStageVolume", "NodeUnpublishVolume", "NodeUnstageVolume",
	}
}

// await checks what a step waits for. Deep is how many steps it is within.
func (v *validator) await(at string, a Await, deep int) {
	about := a.about()
	if about.name == "" {
		v.OneOf(at+".for", "await", a.For, Awaits()...)
		return
	}
	fields := strings.Fields(about.fields)
	v.only(at, a, append([]string{"for", "ordinal", "delay"}, fields...), "%q does not take it", a.For)
	for _, name := range fields {
		v.awaitField(at+"."+name, name, a)
	}
	if about.whole && a.Ordinal != 0 {
		v.Add(at+".ordinal", "leave it at 0", "%q is not about a single pod", a.For)
	} else if !about.whole {
		v.ordinal(at+".ordinal", a.Ordinal)
	}
	if a.Delay < 0 || a.Delay.D() > MaxBound {
		v.Add(at+".delay", fmt.Sprintf("use 0s to %s", MaxBound), "%s is out of range", a.Delay)
	}
	switch {
	case a.For == AwaitSettled:
		v.settles(at + ".for")
	case v.work.Light && (a.For == AwaitCommits || a.For == AwaitWrites):
		v.Add(at+".for", "wait for something else", "a light workload has no clients")
	case about.moment && deep == 0 && !v.set.changed:
		v.Add(at, "put the step into the during of another, or after one that changes the StatefulSet",
			"nothing happens here that could be awaited")
	case about.within && deep == 0:
		v.Add(at, "put the step into the during of another", "nothing happens here that could be awaited")
	}
}

// MaxCount is the most that Await.Count can be.
const MaxCount = 1000

// awaitField checks one field that belongs to what is awaited.
func (v *validator) awaitField(at, name string, a Await) {
	const disks = `use workload.storage: "` + StorageSharedDisk + `"`
	disk := v.work.StorageName() == StorageSharedDisk
	switch name {
	case "rpc":
		v.OneOf(at, "method", a.RPC, CSIRPCs()...)
		if !disk {
			v.Add(strings.TrimSuffix(at, "rpc")+"for", disks, "the volumes have no CSI driver")
		}
	case "lasting":
		v.lasting(at, a.Lasting)
	case "after":
		v.lasting(at, a.After)
	case "commits":
		v.Range(at, a.Commits, 1, math.MaxInt32)
	case "object":
		if a.Object == nil {
			v.Add(at, "set it", "is missing for %q", a.For)
			return
		}
		v.match(at, *a.Object)
	case "place":
		if a.Place != "" {
			v.OneOf(at, "place", a.Place, PlaceGlobal, PlacePod)
		}
		if a.Place == PlaceGlobal && !disk {
			v.Add(at, fmt.Sprintf("use %q, or %s", PlacePod, strings.TrimPrefix(disks, "use ")),
				"a volume of the node's own has no %q place", a.Place)
		}
	case "step":
		if !slices.ContainsFunc(v.order.steps, func(s placed) bool { return s.N == a.Step && s.Fault != nil }) {
			v.Add(at, "use the number of a fault's step", "step %d is no fault", a.Step)
		}
	case "stage":
		if a.Stage != "" {
			v.OneOf(at, "stage", a.Stage, Stages()...)
		}
	case "version":
		v.OneOf(at, "version that the plan upgrades to", a.Version, v.plan.Upgrades()...)
	case "since":
		if a.Since != "" {
			v.OneOf(at, "begin", a.Since, SinceStep, SinceSteps, SinceTrial)
		}
	case "count":
		v.Range(at, a.Count, 0, MaxCount)
	}
}

// describeAwait says what is awaited, which occurrence of it, and for how long beyond it.
func (p Plan) describeAwait(a Await) string {
	say := func(word string, words map[string]string) string {
		if said, ok := words[word]; ok {
			return said
		}
		return word
	}
	since := say(a.Since, map[string]string{
		"": "the step around it began", SinceStep: "this one began", SinceSteps: "the first step began",
		SinceTrial: "the trial began"})
	object := "no object"
	if a.Object != nil {
		object = a.Object.String()
	}
	what := strings.NewReplacer(
		"{pod}", p.Workload.pod(a.Ordinal), "{rpc}", a.RPC, "{commits}", Count(a.Commits, "acknowledged insert"),
		"{step}", strconv.Itoa(a.Step), "{object}", object, "{lasting}", a.Lasting.String(),
		"{after}", a.After.String(), "{since}", since, "{version}", a.Version,
		"{stage}", say(a.Stage, map[string]string{
			"": "shown to have taken effect", StageConfirmed: "shown to have taken effect",
			StageGone: "shown to be gone"}),
		"{place}", say(a.Place, map[string]string{
			PlacePod: " for a pod", PlaceGlobal: " for all pods of a node"}),
	).Replace(a.about().says)
	if what == "" {
		what = fmt.Sprintf("%q of %s", a.For, p.Workload.pod(a.Ordinal))
	}
	if a.Count > 1 {
		what += fmt.Sprintf(", time %d", a.Count)
	}
	switch {
	case a.Since == "" || a.For == AwaitTime:
	case a.Since == SinceStep:
		what += ", from now on"
	default:
		what += ", since " + since
	}
	if a.Delay > 0 {
		what += fmt.Sprintf(", and %s more", a.Delay)
	}
	return what
}
