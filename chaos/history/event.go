// Package history holds the facts of one trial: what was done, what was seen, and when it can have happened.
//
// It is the only input of judgement. It is pure: it imports the standard library alone, and nothing in it can fail
// at run time except decoding.
package history

import (
	"encoding/json"
	"fmt"
)

// Kind names which one of an event's payloads is set.
type Kind string

// The kinds of events; each names the payload field of the same name.
const (
	KindPlan     Kind = "plan"     // The plan, as the first fact of every trial.
	KindPhase    Kind = "phase"    // A phase or a step of the trial began or ended.
	KindOp       Kind = "op"       // A client's operation was invoked or completed.
	KindRows     Kind = "rows"     // Rows read back from one MySQL instance.
	KindMount    Kind = "mount"    // A mount appeared, was present, or vanished on a node.
	KindObject   Kind = "object"   // An API object was added, modified, deleted or listed.
	KindFault    Kind = "fault"    // A fault moved one stage on in its life.
	KindProcess  Kind = "process"  // A process of interest was present, started or gone on a node.
	KindChecksum Kind = "checksum" // A table's checksum was taken.
	KindObserver Kind = "observer" // An observer said that it sees, that it lives, or that it was blind.
	KindVolume   Kind = "volume"   // Which storage stands behind a PersistentVolume on a node.
	KindCSI      Kind = "csi"      // A call of a CSI driver began or ended.
	KindHolding  Kind = "holding"  // A container has a volume mounted, or no longer has.
	KindWitness  Kind = "witness"  // What a volume itself says of who wrote to it.
	// What a program that looks for damage said of a table or a file system.
	KindInspection Kind = "inspection"
	KindPull       Kind = "pull"    // A disk was taken out of a node, whatever the node still has mounted.
	KindAwait      Kind = "await"   // What a step of the plan waited for has come.
	KindResidue    Kind = "residue" // What there was of the things that a fault can leave behind.
	KindUpgrade    Kind = "upgrade" // A part of the upgrade of a node began or ended.
	// What etcd's data was after kubeadm had failed to upgrade the control plane.
	KindEtcdData Kind = "etcdData"
	KindVersion  Kind = "version" // What a component answered when it was asked for its version.
	KindMember   Kind = "member"  // What an instance of a group of databases says of itself.
	// What decides which instance of a group takes writes acted, or refused to.
	KindPromotion Kind = "promotion"
	// What a kubelet says of the volumes of its node.
	KindVolumeManager Kind = "volumeManager"
)

// Event is one fact. Exactly the payload that Kind names is set. ID is its number in the history, from 1, in the
// order in which facts reached the recorder, which is not always the order in which they happened: Span says that.
type Event struct {
	ID     int64  `json:"id"`
	Kind   Kind   `json:"kind"`
	Source string `json:"source"` // Who says so: "trial", "client/3", "api", "ledger/<node>", "guard".
	Span   Span   `json:"span"`

	Plan     json.RawMessage `json:"plan,omitempty"`
	Phase    *Phase          `json:"phase,omitempty"`
	Op       *Op             `json:"op,omitempty"`
	Rows     *Rows           `json:"rows,omitempty"`
	Mount    *Mount          `json:"mount,omitempty"`
	Object   *Object         `json:"object,omitempty"`
	Fault    *Fault          `json:"fault,omitempty"`
	Process  *Process        `json:"process,omitempty"`
	Checksum *Checksum       `json:"checksum,omitempty"`
	Observer *Observer       `json:"observer,omitempty"`
	Volume   *Volume         `json:"volume,omitempty"`
	CSI      *CSI            `json:"csi,omitempty"`
	Holding  *Holding        `json:"holding,omitempty"`
	Witness  *Witness        `json:"witness,omitempty"`

	Inspection *Inspection `json:"inspection,omitempty"`
	Pull       *Pull       `json:"pull,omitempty"`
	Await      *Await      `json:"await,omitempty"`
	Residue    *Residue    `json:"residue,omitempty"`
	Upgrade    *Upgrade    `json:"upgrade,omitempty"`
	EtcdData   *EtcdData   `json:"etcdData,omitempty"`
	Version    *Version    `json:"version,omitempty"`
	Member     *Member     `json:"member,omitempty"`
	Promotion  *Promotion  `json:"promotion,omitempty"`

	VolumeManager *VolumeManager `json:"volumeManager,omitempty"`
}

// Recorder takes facts. Implementations are safe for concurrent use, assign the event's ID, and never block for
// long; a fact that could not be kept makes the trial UNKNOWN, so Record has no error to ignore.
type Recorder interface {
	Record(Event)
}

// PhaseName names a part of the trial's way, in the order of the constants.
type PhaseName string

// The phases of a trial.
const (
	PhaseSetup  PhaseName = "setup"  // Cluster, volumes, workload and observers are made.
	PhaseSteady PhaseName = "steady" // The steady state is shown before anything is hurt.
	PhaseLoad   PhaseName = "load"   // Clients write; the plan's steps are carried out.
	PhaseStep   PhaseName = "step"   // One numbered step of the plan (Phase.Step says which).
	PhaseHeal   PhaseName = "heal"   // Everything is healed.
	PhaseSettle PhaseName = "settle" // The workload converges within the bound.
	PhaseAudit  PhaseName = "audit"  // Final reads and checksums.
	PhaseEnd    PhaseName = "end"    // The instances are ended, and the file systems that they leave inspected.
	PhaseDone   PhaseName = "done"   // The last fact of a whole history; without it the end is missing.
)

// Phase is the begin or end of a phase or step. Error is why it ended badly, empty when it did not.
type Phase struct {
	Name   PhaseName `json:"name"`
	Step   int       `json:"step,omitempty"`
	End    bool      `json:"end,omitempty"`
	Detail string    `json:"detail,omitempty"`
	Error  string    `json:"error,omitempty"`
}

// Stage is how far a client's operation has come. An operation with an invoke and no completion, and one that
// completed as unknown, stay open to the end of the history: they may take effect at any later moment.
type Stage string

// The stages of an operation.
const (
	StageInvoke  Stage = "invoke"
	StageOK      Stage = "ok"      // The server acknowledged it.
	StageFailed  Stage = "failed"  // It certainly did not take effect.
	StageUnknown Stage = "unknown" // It may or may not have taken effect.
)

// OpFunc is what an operation does.
type OpFunc string

// The operations of the ledger workload.
const (
	OpInsert OpFunc = "insert" // Append one row (client, seq, payload, crc) in a transaction of its own.
	OpRead   OpFunc = "read"   // Read one row back by (client, seq).
	OpTxn    OpFunc = "txn"    // Carry out Op.Txn.
)

// Op is an invocation or a completion. Invocation and completion of one operation share (Client, Number); Number
// counts a client's operations from 1. Seq names the row: one client never uses a Seq for two inserts.
type Op struct {
	Client   int    `json:"client"`
	Number   int64  `json:"number"`
	F        OpFunc `json:"f"`
	Stage    Stage  `json:"stage"`
	Instance string `json:"instance"` // The pod the client belongs to, "mysql-0", or the group whose rows it writes.
	// By is the pod that was asked, where Instance is a group; a completion alone has it.
	By     string `json:"by,omitempty"`
	Seq    int64  `json:"seq"`
	CRC    uint32 `json:"crc,omitempty"`    // CRC-32 (Castagnoli) of the payload: written, or read back.
	Found  *bool  `json:"found,omitempty"`  // For a read that is ok: whether the row was there.
	Intact *bool  `json:"intact,omitempty"` // For a read that found it: stored crc equals the payload's.
	Server string `json:"server,omitempty"` // @@server_uuid of the server that answered.
	Error  string `json:"error,omitempty"`
	Txn    *Txn   `json:"txn,omitempty"`
}

// Row is one row as read back from the server.
type Row struct {
	Client int    `json:"c"`
	Seq    int64  `json:"s"`
	CRC    uint32 `json:"crc"` // The crc column as stored.
	Sum    uint32 `json:"sum"` // CRC-32 (Castagnoli) of the payload column as read.
}

// Rows is a chunk of a full read of the ledger table of one instance. Chunk counts from 1 to Chunks; a read is whole
// when all its chunks are in the history and Error is empty.
type Rows struct {
	Instance string `json:"instance"`
	Read     string `json:"read"` // The read's label: FinalRead, or that of ReadOfStep.
	Chunk    int    `json:"chunk"`
	Chunks   int    `json:"chunks"`
	Rows     []Row  `json:"rows"`
	Server   string `json:"server,omitempty"`
	Error    string `json:"error,omitempty"`
}

// FinalRead is the label of the read that the workload makes when everything is over.
const FinalRead = "final"

// ReadOfStep is the label of the read that a step of the plan makes.
func ReadOfStep(step int) string { return fmt.Sprintf("step-%d", step) }

// Checksum is the state of one table of one instance, taken twice over: MySQL's own CHECKSUM TABLE and a hash over
// the rows in primary key order. Label says when ("before", "after", "settled"); Step is the fault's step or 0.
type Checksum struct {
	Instance string `json:"instance"`
	Table    string `json:"table"`
	Quiet    bool   `json:"quiet"` // No client writes to it after set-up: its checksum must never change.
	Label    string `json:"label"`
	Step     int    `json:"step,omitempty"`
	Table64  uint64 `json:"checksumTable"`
	RowHash  string `json:"rowHash"` // SHA-256 over the rows, lower-case hex.
	Rows     int64  `json:"rows"`
	Server   string `json:"server,omitempty"`
	Error    string `json:"error,omitempty"` // Why it could not be taken; the values are then void.
}

// Verb says how an object fact came about.
type Verb string

// The verbs of object facts: the watch's own, and listed for an object of an initial or repeated list.
const (
	VerbListed   Verb = "LISTED"
	VerbAdded    Verb = "ADDED"
	VerbModified Verb = "MODIFIED"
	VerbDeleted  Verb = "DELETED"
)

// Object is an API object at one resourceVersion. Raw is the object as the API server sent it, less managedFields and,
// of a node, status.images.
type Object struct {
	Verb            Verb            `json:"verb"`
	Resource        string          `json:"resource"` // Plural, lower-case: "pods", "statefulsets".
	Namespace       string          `json:"namespace,omitempty"`
	Name            string          `json:"name"`
	UID             string          `json:"uid"`
	ResourceVersion string          `json:"resourceVersion"`
	Raw             json.RawMessage `json:"raw,omitempty"`
}

// FaultStage is one stage in a fault's life.
type FaultStage string

// The stages of a fault's life, in order; StageFaultFailed may come at any point.
const (
	StageIntent          FaultStage = "intent"          // In the journal; nothing touched yet.
	StageArmed           FaultStage = "armed"           // The undo is armed on the node.
	StageInjected        FaultStage = "injected"        // The act was carried out.
	StageConfirmed       FaultStage = "confirmed"       // Its effect was shown from the victim's side.
	StageHealed          FaultStage = "healed"          // It was undone.
	StageConfirmedHealed FaultStage = "confirmedHealed" // Its effect was shown to be gone.
	StageFaultFailed     FaultStage = "failed"          // A stage could not be reached; Error says which and why.
)

// Fault is one stage of one fault of the plan.
type Fault struct {
	Step   int        `json:"step"`
	Name   string     `json:"name"`
	Stage  FaultStage `json:"stage"`
	Node   string     `json:"node,omitempty"`
	Victim string     `json:"victim,omitempty"` // The pod chosen, for example "mysql-1".
	// Takes lists the resources that it holds while it is in force (plan.Part). It is set at the intent and when the
	// fault is injected; histories of older versions have none.
	Takes    []string `json:"takes,omitempty"`
	Evidence []string `json:"evidence,omitempty"` // What was seen, one plain sentence each.
	Error    string   `json:"error,omitempty"`
}

// ProcessAction says what became of a process.
type ProcessAction string

// The actions of process facts.
const (
	ProcessPresent ProcessAction = "present"
	ProcessStarted ProcessAction = "started"
	ProcessGone    ProcessAction = "gone"
)

// Process is a real process on a node, whatever the API says. (Node, PID, Start) is its identity.
type Process struct {
	Action ProcessAction `json:"action"`
	Node   string        `json:"node"`
	Name   string        `json:"name"`
	PID    int           `json:"pid"`    // In the node's PID namespace.
	Start  Time          `json:"start"`  // When the kernel started it, at clock-tick resolution (10 ms).
	PodUID string        `json:"podUID"` // From its cgroup path; empty for a process of no pod.
}

// ObserverState is what an observer says of itself.
type ObserverState string

// The states of an observer. A gap and a loss are spans in which it was blind.
const (
	ObserverOn   ObserverState = "on"   // It sees from Span.NotAfter on.
	ObserverBeat ObserverState = "beat" // It lives and has seen everything up to Span.NotBefore.
	ObserverGap  ObserverState = "gap"  // It was blind in Span.
	ObserverLoss ObserverState = "loss" // It saw that something happened in Span and could not say what.
	ObserverOff  ObserverState = "off"  // It was stopped on purpose at Span.
)

// Observer is what an observer says of itself.
type Observer struct {
	Name   string        `json:"name"` // "mounts", "processes", "api/pods", "client/3".
	Node   string        `json:"node,omitempty"`
	Boot   string        `json:"boot,omitempty"`   // The node's boot, see Mount.Boot.
	Booted *Span         `json:"booted,omitempty"` // When it began, where Boot is a time on another clock.
	State  ObserverState `json:"state"`
	Detail string        `json:"detail,omitempty"`
}
