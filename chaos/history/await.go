package history

// Await says that what a step of the plan waited for has come, and how late the harness was: it happened at some time
// in Happened, the harness knew of it at Known, and went on at Acted. A delay that the plan wants lies between Known
// and Acted.
type Await struct {
	Step     int    `json:"step"`
	For      string `json:"for"`             // As the plan has it, for example "mount".
	What     string `json:"what"`            // What was seen, one plain sentence.
	Count    int    `json:"count,omitempty"` // The how manieth time it was, where the plan does not want the first.
	Happened Span   `json:"happened"`
	Known    Time   `json:"known"`
	Acted    Time   `json:"acted"`
}
