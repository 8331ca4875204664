package plan

import "time"

// Await is what a step waits for. Exactly the fields that it needs are set.
type Await struct {
	For     string `json:"for"`           // One of Awaits.
	RPC     string `json:"rpc,omitempty"` // Of a CSI call: the method's name.
	Ordinal int    `json:"ordinal"`       // Whose pod, volume or claim; 0 for what concerns none of them.
	// Lasting is for how long AwaitStill must have been so.
	Lasting Duration `json:"lasting,omitempty"`
	Object  *Match   `json:"object,omitempty"`  // AwaitObject.
	Place   string   `json:"place,omitempty"`   // Of a mount: PlacePod or PlaceGlobal; empty for either.
	Commits int      `json:"commits,omitempty"` // AwaitCommits.
	After   Duration `json:"after,omitempty"`   // AwaitTime.
	Step    int      `json:"step,omitempty"`    // AwaitFault: the fault's.
	Stage   string   `json:"stage,omitempty"`   // AwaitFault: one of Stages; StageConfirmed when empty.
	// Since is from when on what comes counts: one of Sinces, or, when empty, as each is described.
	Since string `json:"since,omitempty"`
	// Count is the how manieth time of it is meant; the first when 0.
	Count int `json:"count,omitempty"`
	// Delay is for how long the step goes on to wait once it has come.
	Delay Duration `json:"delay,omitempty"`
}

// From when on something counts, and a time is counted.
const (
	SinceTrial = "trial" // The trial began, before anything was made.
	SinceSteps = "steps" // The first step of the plan began.
	SinceStep  = "step"  // The step that waits began.
)

// Sinces returns from when on something can count.
func Sinces() []string { return []string{SinceStep, SinceSteps, SinceTrial} }

// Where a volume is mounted.
const (
	PlacePod    = "pod"    // Where the kubelet has it for a pod.
	PlaceGlobal = "global" // Where the kubelet has a CSI volume for all pods of a node.
)

// How far a fault can have come, as it is in the history.
const (
	StageInjected  = "injected"
	StageConfirmed = "confirmed"
	StageHealed    = "healed"
	StageGone      = "confirmedHealed"
)

// Stages returns how far a fault can have come, in order.
func Stages() []string { return []string{StageInjected, StageConfirmed, StageHealed, StageGone} }

// What a step can wait for in the trial's facts. It counts once it has come since the last change of the StatefulSet in
// the same sequence of steps began, or since the enclosing step began when there is none, or the first of the plan.
const (
	AwaitCommits = "commits" // So many inserts more are acknowledged.
	AwaitFault   = "fault"   // The fault of another step has come to a stage. Since does not matter.
	AwaitMount   = "mount"   // A volume is mounted on a node, says the mount ledger.
	AwaitObject  = "object"  // An API object comes to match, which it did not before, or matches from its beginning on.
	AwaitTime    = "time"    // So long after that. With Since "step" it is a pause.
	AwaitUnmount = "unmount" // A mount of a volume on a node ends, says the mount ledger.
)

// What a step can wait for in a CSI driver, in a node, or of a pod that moves. What was there before the step that
// encloses it began does not count.
const (
	AwaitCSIBegin = "csi-begin" // A call of RPC for the volume began.
	AwaitCSIEnd   = "csi-end"   // A call of RPC for the volume ended with OK.
	AwaitNotReady = "not-ready" // The node that ran the pod when the enclosing step began is not Ready.
	// AwaitMoved is over when the pod came up on another node than when the enclosing step began: it is Ready there, or
	// its container has ended there, as a database does that finds its files damaged.
	AwaitMoved = "moved"
)

// What a step can wait for on the API watch: moments in the life of the pod or the claim of an ordinal. A moment counts
// once it has come since the last change of the StatefulSet in the same sequence of steps began, or since the enclosing
// step began when there is none; what the same pod was by then already does not count.
const (
	AwaitClaimGone   = "claim-gone"  // Its claim is deleted.
	AwaitCreated     = "created"     // A pod is made.
	AwaitGone        = "gone"        // A pod is deleted: the API server has it no more.
	AwaitPending     = "pending"     // The scheduler finds no node for a pod.
	AwaitReady       = "ready"       // A pod is Ready.
	AwaitScheduled   = "scheduled"   // A pod is given a node.
	AwaitTerminating = "terminating" // A pod gets its deletionTimestamp.
	AwaitUnready     = "unready"     // A pod's containers are started, or cannot be, and it is not Ready.
	AwaitUpdated     = "updated"     // A pod of the revision that was last asked for is Ready.
)

// What a step can wait for that concerns all of the StatefulSet.
const (
	AwaitSettled = "settled" // It has come to what was last asked of it, see WaitSettled.
	AwaitStill   = "still"   // No pod of it was made, deleted, or told to end, for as long as Lasting.
)

// Awaits returns what a step can wait for, in alphabetical order.
func Awaits() []string {
	return []string{
		AwaitClaimGone, AwaitCommits, AwaitCreated, AwaitCSIBegin, AwaitCSIEnd, AwaitFault, AwaitGone, AwaitMount,
		AwaitMoved, AwaitNotReady, AwaitObject, AwaitPending, AwaitReady, AwaitScheduled, AwaitSettled, AwaitStill,
		AwaitTerminating, AwaitTime, AwaitUnmount, AwaitUnready, AwaitUpdated,
	}
}

// Moment reports that what is awaited is a moment on the API watch.
func (a Await) Moment() bool {
	switch a.For {
	case AwaitClaimGone, AwaitCreated, AwaitGone, AwaitPending, AwaitReady, AwaitScheduled, AwaitTerminating,
		AwaitUnready, AwaitUpdated:
		return true
	}
	return false
}

// call reports that what is awaited is a call of a CSI driver.
func (a Await) call() bool { return a.For == AwaitCSIBegin || a.For == AwaitCSIEnd }

// mount reports that what is awaited is in the mount ledger.
func (a Await) mount() bool { return a.For == AwaitMount || a.For == AwaitUnmount }

// whole reports that what is awaited concerns none of the ordinals.
func (a Await) whole() bool {
	switch a.For {
	case AwaitCommits, AwaitFault, AwaitObject, AwaitSettled, AwaitStill, AwaitTime:
		return true
	}
	return false
}

// counts reports that what is awaited can come several times.
func (a Await) counts() bool { return a.Moment() || a.call() || a.mount() || a.For == AwaitObject }

// since reports that it can be said from when on what is awaited counts.
func (a Await) since() bool { return a.counts() || a.For == AwaitCommits || a.For == AwaitTime }

// least returns the shortest time that the wait can take.
func (a Await) least() time.Duration {
	least := sum(a.Lasting.D(), a.Delay.D())
	if a.For == AwaitTime && a.Since == SinceStep {
		least = sum(least, a.After.D())
	}
	return least
}
