package plan

import (
	"encoding/json"
	"fmt"
	"slices"
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
	// Audit is set by the harness that carries the plan out: it looks for residue before and after.
	Audit bool `json:"audit,omitempty"`
	// DataFiles is set by the harness that carries the plan out: it verifies the database's files on disk at the end.
	DataFiles bool `json:"dataFiles,omitempty"`
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
	// FlushLogAtTrxCommit is when the database writes its log and syncs it: 1 (also when left out) at every commit, 2
	// writes at every commit and syncs once a second, 0 does both once a second (innodb_flush_log_at_trx_commit).
	FlushLogAtTrxCommit *int `json:"flushLogAtTrxCommit,omitempty"`
	// SyncBinlog is after how many commits the database syncs its binary log: 1 (also when left out), or 0, which
	// leaves it to the kernel (sync_binlog).
	SyncBinlog *int `json:"syncBinlog,omitempty"`
	// Parallel makes and ends pods without waiting for each other (podManagementPolicy).
	Parallel bool `json:"parallel,omitempty"`
	// PreStop is how long the kubelet waits before it tells the database of a deleted pod to stop (lifecycle.preStop,
	// KEP-3960).
	PreStop Duration `json:"preStop,omitempty"`
	// Light has containers that do nothing in place of databases: there are volumes, and no data and no clients.
	Light bool `json:"light,omitempty"`
	// Replicated has every database but the first be a copy of that one, brought up to date by its GTIDs; the clients
	// write to the first alone.
	Replicated bool `json:"replicated,omitempty"`
	// UpdateStrategy is the StatefulSet's: StrategyRolling (also when empty) or StrategyOnDelete.
	UpdateStrategy string `json:"updateStrategy,omitempty"`
	// Partition is how many pods, from the lowest ordinal on, a rolling update leaves alone.
	Partition int `json:"partition,omitempty"`
	// MaxUnavailable is how many pods a rolling update may have unavailable at once (KEP-961); 0 leaves it out.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
	// MinReadySeconds is for how long a pod must be Ready to count as available (KEP-2599).
	MinReadySeconds int `json:"minReadySeconds,omitempty"`
	// Start is the ordinal of the first pod (KEP-3335).
	Start int `json:"start,omitempty"`
	// WhenDeleted and WhenScaled say what becomes of claims when the StatefulSet is deleted and when it is scaled down
	// (KEP-1847): PolicyRetain (also when empty) or PolicyDelete.
	WhenDeleted string `json:"whenDeleted,omitempty"`
	WhenScaled  string `json:"whenScaled,omitempty"`
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
	// MaxNodes is how many nodes may be hurt at the same time; 0 is fewer than half of the workers, and at least one.
	MaxNodes int `json:"maxNodes,omitempty"`
}

// AllSteps returns every step in the order of N: each before the steps within it, of those of a fault what provokes
// it before what is done while it is held, and of sequences beside each other one after the other.
func (p Plan) AllSteps() []Step { return flatten(nil, p.Steps) }

func flatten(into, steps []Step) []Step {
	for _, s := range steps {
		into = append(into, s)
		for _, within := range s.inner() {
			into = flatten(into, within)
		}
	}
	return into
}

// Within returns every step within s, in the order of N.
func (s Step) Within() []Step { return flatten(nil, []Step{s})[1:] }

// Around returns the steps around step n, the outermost one first: none of one that is at the top, or not there.
func (p Plan) Around(n int) []Step {
	var around []Step
	steps := p.Steps
	for {
		i := slices.IndexFunc(steps, func(s Step) bool {
			return slices.ContainsFunc(s.Within(), func(in Step) bool { return in.N == n })
		})
		if i < 0 {
			return around
		}
		around = append(around, steps[i])
		steps = slices.Concat(steps[i].inner()...)
	}
}
