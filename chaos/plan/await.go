package plan

// Await is what a step waits for.
type Await struct {
	For     string `json:"for"`           // One of Awaits.
	RPC     string `json:"rpc,omitempty"` // Of a CSI call: the method's name.
	Ordinal int    `json:"ordinal"`       // Whose pod, volume or claim; 0 for what concerns the StatefulSet.
	// Lasting is for how long AwaitStill must have been so.
	Lasting Duration `json:"lasting,omitempty"`
}

// What a step can wait for in a CSI driver, in a node, or of a pod that moves. What was there before the step that
// encloses it began does not count.
const (
	AwaitCSIBegin = "csi-begin" // A call of RPC for the volume began.
	AwaitCSIEnd   = "csi-end"   // A call of RPC for the volume ended with OK.
	AwaitNotReady = "not-ready" // The node that ran the pod when the enclosing step began is not Ready.
	AwaitMoved    = "moved"     // The pod is Ready on another node than when the enclosing step began.
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
		AwaitClaimGone, AwaitCreated, AwaitCSIBegin, AwaitCSIEnd, AwaitGone, AwaitMoved, AwaitNotReady, AwaitPending,
		AwaitReady, AwaitScheduled, AwaitSettled, AwaitStill, AwaitTerminating, AwaitUnready, AwaitUpdated,
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

// whole reports that what is awaited concerns the StatefulSet and none of its ordinals.
func (a Await) whole() bool { return a.For == AwaitSettled || a.For == AwaitStill }
