package history

// Member is what an instance of a group of databases says of itself. Error is why it said nothing; the rest is void
// then.
type Member struct {
	Instance string `json:"instance"`
	Label    string `json:"label,omitempty"` // FinalRead after the clients had stopped; empty while they wrote.
	Server   string `json:"server,omitempty"`
	Writable bool   `json:"writable,omitempty"` // It takes writes: super_read_only is off.
	Executed string `json:"executed,omitempty"` // @@gtid_executed, see ParseGTIDs.
	// SemiSync says that commits wait for a replica, of a source (Rpl_semi_sync_source_status); Unacked counts those
	// that did not (Rpl_semi_sync_source_no_tx).
	SemiSync bool  `json:"semiSync,omitempty"`
	Unacked  int64 `json:"unacked,omitempty"`
	// WaitPoint is when others see what waits for a replica (rpl_semi_sync_source_wait_point); Consistency is what a
	// read waits for in group replication (group_replication_consistency). Empty where they are not known.
	WaitPoint   string `json:"waitPoint,omitempty"`
	Consistency string `json:"consistency,omitempty"`
	State       string `json:"state,omitempty"` // MEMBER_STATE and MEMBER_ROLE in group replication.
	// Waited is for how many seconds a member that is not the writer was waited for to have the writer's transactions.
	Waited float64 `json:"waited,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// Promotion is an act of what decides which instance of a group takes writes, or its refusal to act.
type Promotion struct {
	Act      string `json:"act"` // One of the Promotion acts.
	Instance string `json:"instance,omitempty"`
	Term     int    `json:"term,omitempty"` // Counts the primaries from 1.
	Why      string `json:"why,omitempty"`
	Error    string `json:"error,omitempty"` // Why the act failed.
}

// The acts of a promoter.
const (
	ActPromote = "promote" // It was chosen: from now on it alone may be opened.
	ActOpen    = "open"    // It takes writes.
	ActFollow  = "follow"  // It follows the primary.
	ActFence   = "fence"   // It was writable and is not the primary: it takes no writes any more.
	ActClone   = "clone"   // What it has is replaced by a clone of the primary.
	ActJoin    = "join"    // It starts group replication.
	ActRefuse  = "refuse"  // Nobody is promoted, since who has what is not known.
)
