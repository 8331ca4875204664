package plan

import (
	"encoding/json"
	"fmt"
	"time"
)

// SchemaVersion is the version of the plan's JSON; a reader refuses a newer one.
const SchemaVersion = 1

// Duration is a time.Duration that reads and writes as text, for example "1m30s".
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String renders d as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes the duration as text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads the duration from text.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("decode duration: want text like \"30s\": %w", err)
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("decode duration: %w", err)
	}
	*d = Duration(v)
	return nil
}

// Plan is all that a trial will do, decided before anything is touched.
type Plan struct {
	Schema   int      `json:"schema"`
	Scenario string   `json:"scenario"`
	Seed     uint64   `json:"seed"`
	Workers  int      `json:"workers"` // Worker nodes needed.
	Workload Workload `json:"workload"`
	Bounds   Bounds   `json:"bounds"`
	Steps    []Step   `json:"steps"`
}

// Workload is what is hurt and how it is used.
type Workload struct {
	Name        string   `json:"name"`        // In the list of workloads, for example "ledger".
	StatefulSet string   `json:"statefulSet"` // Name of the StatefulSet, for example "mysql".
	Replicas    int      `json:"replicas"`
	FileSystem  string   `json:"fileSystem"` // "ext4" or "xfs": the file system of every volume.
	VolumeMiB   int      `json:"volumeMiB"`
	Clients     int      `json:"clients"`          // Writing clients per instance.
	Interval    Duration `json:"interval"`         // A client's pause between two operations.
	QuietRows   int      `json:"quietRows"`        // Rows of the table nobody writes to after set-up.
	Silent      bool     `json:"silent,omitempty"` // Clients are given an address where nobody listens (self-test).
	// Storage is what the volumes are: StorageLocal (also when empty) or StorageSharedDisk.
	Storage string `json:"storage,omitempty"`
	// Fencing is what a shared disk does about a second node: "none", "single" or "evict".
	Fencing string `json:"fencing,omitempty"`
	// Packed puts all pods on one node where that is possible, so that one fault of a node concerns them all.
	Packed bool `json:"packed,omitempty"`
	// Pinned keeps all pods on the first worker, by name: they come back where they were.
	Pinned bool `json:"pinned,omitempty"`
	// Parallel makes and ends pods without waiting for each other (podManagementPolicy).
	Parallel bool `json:"parallel,omitempty"`
	// PreStop is how long the kubelet waits before it tells the database of a deleted pod to stop (lifecycle.preStop,
	// KEP-3960).
	PreStop Duration `json:"preStop,omitempty"`
}

// What volumes can be.
const (
	StorageLocal      = "local"      // A file system of the node's own; the volume cannot move.
	StorageSharedDisk = "shareddisk" // A disk that is attached to the node that needs it.
)

// Storages returns what volumes can be.
func Storages() []string { return []string{StorageLocal, StorageSharedDisk} }

// StorageName returns what the volumes are.
func (w Workload) StorageName() string {
	if w.Storage == "" {
		return StorageLocal
	}
	return w.Storage
}

// Bounds are the times and amounts the judges hold the trial to.
type Bounds struct {
	Ready     Duration `json:"ready"`     // From apply to all instances Ready.
	Settle    Duration `json:"settle"`    // From the last heal to Ready and writable.
	BlindGap  Duration `json:"blindGap"`  // Longest gap in which the mount ledger may be blind.
	MinOps    int      `json:"minOps"`    // Acknowledged inserts that each instance needs at least in the whole trial.
	MinAround int      `json:"minAround"` // Completed operations needed before, during and after each fault.
}

// Action is what a step does.
type Action string

// The actions a step can be.
const (
	ActionAwait    Action = "await"    // Wait until something is seen in the trial's own facts.
	ActionLoad     Action = "load"     // Let the clients write until Commits more inserts are acknowledged.
	ActionFault    Action = "fault"    // One fault: inject, confirm, hold, heal, confirm healed.
	ActionScale    Action = "scale"    // Scale the StatefulSet and wait until it has settled.
	ActionChecksum Action = "checksum" // Checksum the quiet tables of all instances.
	ActionTamper   Action = "tamper"   // Corrupt data on purpose, behind the workload's back: the checks must find it.
)

// Step is one numbered step. Exactly the fields its action needs are set.
type Step struct {
	N        int      `json:"n"`
	Do       Action   `json:"do"`
	Commits  int      `json:"commits,omitempty"`  // ActionLoad.
	Fault    *Fault   `json:"fault,omitempty"`    // ActionFault.
	Replicas *int     `json:"replicas,omitempty"` // ActionScale.
	Label    string   `json:"label,omitempty"`    // ActionChecksum.
	Tamper   *Tamper  `json:"tamper,omitempty"`   // ActionTamper.
	Await    *Await   `json:"await,omitempty"`    // ActionAwait.
	Bound    Duration `json:"bound"`              // The step is given up, and the trial UNKNOWN, after this long.
}

// Fault is one planned fault. The victim is the node that runs the pod of Ordinal when the fault starts; within another
// fault, when that one started.
type Fault struct {
	Name     string   `json:"name"` // In the list of faults, for example "kubelet-kill".
	Ordinal  int      `json:"ordinal"`
	Hold     Duration `json:"hold"`               // How long the shown effect is left in place.
	Families []string `json:"families,omitempty"` // Network faults: "ipv4", "ipv6"; empty means both.
	CSI      *CSI     `json:"csi,omitempty"`      // Faults of a CSI driver: which call, and what happens to it.
	// When has the act wait on the victim's node for a call of the CSI driver's node service for the victim's volume,
	// and follow it at once. Provoke are the steps, carried out once the node waits, that bring the call about.
	When    *Await `json:"when,omitempty"`
	Provoke []Step `json:"provoke,omitempty"`
	// During are steps carried out when the effect was shown, before the time of Hold begins.
	During []Step `json:"during,omitempty"`
	// Outlast leaves the fault in place until the one within which it is was shown to be gone. It is for what cannot
	// be healed before: a Node that was deleted is registered by its kubelet, which a partition keeps from it.
	Outlast bool `json:"outlast,omitempty"`
}

// CSI is a fault point of a CSI driver: what happens to the calls of one method for the victim's volume.
type CSI struct {
	RPC   string   `json:"rpc"`             // The method's name, for example "NodeUnstageVolume".
	Act   string   `json:"act"`             // "fail", "delay", "hold", "late" or "lie", see CSIActs.
	Code  string   `json:"code,omitempty"`  // Of fail and late: the gRPC code's name, for example "Internal".
	Delay Duration `json:"delay,omitempty"` // Of delay.
	Times int      `json:"times,omitempty"` // How many calls; 0 is all of them.
}

// CSIActs returns what a fault point can do to a call: answer an error and do nothing; do it later; hold it until the
// fault is healed; do it and answer an error; answer success and do nothing.
func CSIActs() []string { return []string{"fail", "delay", "hold", "late", "lie"} }

// CSIRPCs returns the methods that a fault point can be at (CSI specification 1.11).
func CSIRPCs() []string {
	return []string{
		"ControllerExpandVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "CreateVolume",
		"DeleteVolume", "NodeExpandVolume", "NodePublishVolume", "NodeStageVolume", "NodeUnpublishVolume",
		"NodeUnstageVolume",
	}
}

// Await is what a step waits for.
type Await struct {
	For     string `json:"for"`           // One of AwaitCSIBegin and the others below.
	RPC     string `json:"rpc,omitempty"` // Of a CSI call: the method's name.
	Ordinal int    `json:"ordinal"`       // Whose pod, or whose volume.
}

// What a step can wait for. What was there before the step that encloses it began does not count.
const (
	AwaitCSIBegin = "csi-begin" // A call of RPC for the volume began.
	AwaitCSIEnd   = "csi-end"   // A call of RPC for the volume ended with OK.
	AwaitNotReady = "not-ready" // The node that ran the pod when the enclosing fault began is not Ready.
	AwaitMoved    = "moved"     // The pod is Ready on another node than when the enclosing fault began.
)

// Awaits returns what a step can wait for.
func Awaits() []string { return []string{AwaitCSIBegin, AwaitCSIEnd, AwaitMoved, AwaitNotReady} }

// AllSteps returns every step in the order of N: a fault, then the steps that provoke it, then those carried out while
// it is held.
func (p Plan) AllSteps() []Step { return flatten(nil, p.Steps) }

func flatten(into, steps []Step) []Step {
	for _, s := range steps {
		into = append(into, s)
		if s.Fault != nil {
			into = flatten(into, s.Fault.Provoke)
			into = flatten(into, s.Fault.During)
		}
	}
	return into
}

// Tamper is a corruption on purpose.
type Tamper struct {
	Kind    string `json:"kind"` // "delete-row": delete one acknowledged row with a connection of its own.
	Ordinal int    `json:"ordinal"`
}
