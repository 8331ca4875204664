package report

import "time"

// RunSchemaVersion is the version of run.json.
const RunSchemaVersion = 1

// Run is what is known of a run before it begins, and why its record broke off if it did: the content of run.json.
type Run struct {
	Schema          int               `json:"schema"`
	RunID           string            `json:"runID"`
	Scenario        string            `json:"scenario"`
	Seed            uint64            `json:"seed"`
	CommandLine     []string          `json:"commandLine"`
	Unit            string            `json:"unit,omitempty"`   // Of a night, the ID of its unit.
	Commit          string            `json:"commit,omitempty"` // Of Seatrial; empty outside a checkout.
	Dirty           bool              `json:"dirty,omitempty"`  // The checkout had changes that are in no commit.
	Started         time.Time         `json:"started"`          // UTC.
	NodeImageSource string            `json:"nodeImageSource"`  // "published" or "built".
	Versions        map[string]string `json:"versions"`         // By component: "kubernetes", "mysql", "kind".
	Host            Host              `json:"host"`
	CutShort        string            `json:"cutShort,omitempty"` // Why the history lacks its end, if it does.
}

// Host is the machine that carried the run out.
type Host struct {
	OS        string `json:"os,omitempty"` // For example "Debian GNU/Linux 12 (bookworm)".
	Kernel    string `json:"kernel,omitempty"`
	Arch      string `json:"arch,omitempty"`
	CPUs      int    `json:"cpus,omitempty"`
	MemoryMiB int    `json:"memoryMiB,omitempty"`
	Engine    string `json:"engine,omitempty"` // The container engine and its version.
}
