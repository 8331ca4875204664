package history

// Txn is a transaction on lists of numbers. No number is appended to the same list twice.
type Txn struct {
	Level string `json:"level"`          // The isolation level as SQL names it: "REPEATABLE READ".
	Auto  bool   `json:"auto,omitempty"` // One statement that commits by itself.
	Ops   []List `json:"ops"`            // In order.
}

// Auditor is the client that reads all lists in the end.
const Auditor = 0

// Levels returns the isolation levels of SQL, from the weakest on.
func Levels() []string {
	return []string{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}
}

// List is one operation of a transaction: it appends a number to a list, or reads a whole list.
type List struct {
	Key    int64   `json:"k"`
	Append bool    `json:"a,omitempty"`
	Value  int64   `json:"v,omitempty"` // Appended.
	Read   []int64 `json:"r,omitempty"` // Read; of a transaction that is ok alone.
}
