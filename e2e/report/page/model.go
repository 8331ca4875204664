package page

import "github.com/seatrial/seatrial/e2e/check"

// drawing is what the script draws. All times are milliseconds since the trial began. Numbers of facts are those of the
// history; Facts has the facts themselves, as far as there is room.
type drawing struct {
	Origin    int64          `json:"origin"` // The beginning of the trial on the boot clock, in nanoseconds.
	From      float64        `json:"from"`
	To        float64        `json:"to"`
	Focus     *[2]float64    `json:"focus,omitempty"` // From the first violation to the last of the same cause.
	Phases    []bar          `json:"phases"`
	Findings  []bar          `json:"findings"`
	Faults    []faultLane    `json:"faults"`
	Nodes     []nodeLane     `json:"nodes"`
	Instances []instanceLane `json:"instances"`
	Notices   []bar          `json:"notices"` // Events of the API.
	Facts     map[int64]any  `json:"facts"`
}

// bar is something that lasts: certainly from A to B, possibly from MA to MB where these are given. One without an end
// goes on to the end of the record.
type bar struct {
	A     float64  `json:"a"`
	B     float64  `json:"b"`
	MA    *float64 `json:"ma,omitempty"`
	MB    *float64 `json:"mb,omitempty"`
	Open  bool     `json:"open,omitempty"`
	Kind  string   `json:"kind,omitempty"` // How it is drawn.
	Text  string   `json:"text"`
	Facts []int64  `json:"facts,omitempty"`
}

// faultLane is a fault: when it was at work, and its stages.
type faultLane struct {
	Name   string `json:"name"`
	Where  string `json:"where"`
	Active *bar   `json:"active,omitempty"`
	Stages []bar  `json:"stages"`
}

// nodeLane is a node: what its Ready condition was, when its lease was renewed, when an observer on it was blind, and
// what its kubelet said of its volumes.
type nodeLane struct {
	Name    string    `json:"name"`
	Ready   []bar     `json:"ready"`
	Leases  []float64 `json:"leases"`
	Blind   []bar     `json:"blind"`
	Volumes []bar     `json:"volumes,omitempty"`
}

// instanceLane is a pod of the StatefulSet by its name, its volumes and what its clients were told; of a group, also
// what the instance was in it, and what a promoter did with it.
type instanceLane struct {
	Name    string       `json:"name"`
	Pods    []bar        `json:"pods"`
	Roles   []bar        `json:"roles,omitempty"`
	Acts    []bar        `json:"acts,omitempty"`
	Volumes []volumeLane `json:"volumes"`
	Clients *clients     `json:"clients,omitempty"`
}

// volumeLane is a volume: a row for each node that ever had it.
type volumeLane struct {
	Name     string    `json:"name"`
	Rows     []nodeRow `json:"rows"`
	Overlaps []bar     `json:"overlaps"` // On two nodes at once.
}

// nodeRow is what one node had of a volume: attachments, mounts, the processes of the pod that uses it, and what its
// kubelet said.
type nodeRow struct {
	Node      string `json:"node"`
	Attached  []bar  `json:"attached"`
	Mounted   []bar  `json:"mounted"`
	Processes []bar  `json:"processes"`
	Said      []bar  `json:"said,omitempty"` // Lines of the kubelet's log about it.
}

// clients is what the clients of an instance were told, in equal parts of time of Step milliseconds from From.
// Latencies are milliseconds, -1 where nothing was answered.
type clients struct {
	From    float64   `json:"from"`
	Step    float64   `json:"step"`
	P50     []float64 `json:"p50"`
	P99     []float64 `json:"p99"`
	Count   []int     `json:"count"`
	Failed  []int     `json:"failed"`
	Unknown []int     `json:"unknown"`
	Lost    []int     `json:"lost"`  // When the rows were acknowledged that the final read did not find.
	Facts   []int64   `json:"facts"` // A fact of each part: the first row lost, or else the slowest answer.

	Rows     int     `json:"rows"` // Acknowledged rows in all.
	LostRows int     `json:"lostRows"`
	Slowest  float64 `json:"slowest"`
	Judged   bool    `json:"judged"` // The final read is whole, so Lost can be known.

	max []float64
}

// cause is findings that have one cause.
type cause struct {
	Faults string
	Found  []found
}

// found is a finding as the page tells it.
type found struct {
	check.Found
	Number int
	When   string
	A, B   float64
	Facts  string // Numbers, with a blank between.
}
