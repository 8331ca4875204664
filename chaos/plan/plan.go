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
	Bound    Duration `json:"bound"`              // The step is given up, and the trial UNKNOWN, after this long.
}

// Fault is one planned fault. The victim is the node that runs the pod of Ordinal when the fault starts.
type Fault struct {
	Name     string   `json:"name"` // In the list of faults, for example "kubelet-kill".
	Ordinal  int      `json:"ordinal"`
	Hold     Duration `json:"hold"`               // How long the shown effect is left in place.
	Families []string `json:"families,omitempty"` // Network faults: "ipv4", "ipv6"; empty means both.
}

// Tamper is a corruption on purpose.
type Tamper struct {
	Kind    string `json:"kind"` // "delete-row": delete one acknowledged row with a connection of its own.
	Ordinal int    `json:"ordinal"`
}
