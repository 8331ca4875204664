package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

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

// Item is a line of the head of a report.
type Item struct{ Name, Value string }

// About is what is known of a run, as the head of its report says it.
func About(j Judged) []Item {
	r, h := j.Run, j.Run.Host
	// set returns a text that depends on a value, or "" when the value is not set.
	set := func(isSet bool, format string, args ...any) string {
		if !isSet {
			return ""
		}
		return fmt.Sprintf(format, args...)
	}
	list := func(parts ...string) string {
		return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
	}
	var versions []string
	for _, k := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, set(r.Versions[k] != "", "%s %s", k, r.Versions[k]))
	}
	versions = append(versions, set(r.NodeImageSource != "", "node image source %s", r.NodeImageSource))
	recorded := "empty"
	if n := len(j.World.Events); n > 0 {
		recorded = fmt.Sprintf("%d facts over %.1f s", n, j.World.Last().Sub(j.World.Begin()).Seconds()) +
			set(j.World.Truncated, "; it is torn: its end is missing") + set(r.CutShort != "", ": %s", r.CutShort)
	}
	items := []Item{
		{"run", r.RunID + set(!r.Started.IsZero(), ", started %s", r.Started.UTC().Format(time.DateTime+" UTC"))},
		{"command", strings.Join(r.CommandLine, " ")},
		{"seatrial", set(r.Commit != "" && r.Commit != "unknown", "commit %s", r.Commit) +
			set(r.Dirty, " with changes that are in no commit")},
		{"versions", list(versions...)},
		{"host", list(h.OS, set(h.Kernel != "", "kernel %s", h.Kernel), h.Arch, set(h.CPUs > 0, "%d CPUs", h.CPUs),
			set(h.MemoryMiB > 0, "%d MiB of memory", h.MemoryMiB), h.Engine)},
		{"history", recorded},
	}
	for _, warning := range j.Warnings {
		items = append(items, Item{"WARNING", warning})
	}
	return slices.DeleteFunc(items, func(i Item) bool { return i.Value == "" })
}
