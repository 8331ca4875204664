package history

// Txn is a transaction on lists of numbers. No number is appended to the same list twice.
type Txn struct {
	Level string `json:"level"`          // The isolation level as SQL names it: "REPEATABLE READ".
	Auto  bool   `json:"auto,omitempty"` // One statement that commits by itself.
	Ops   []List `json:"ops"`            // In order.
}

// List is one operation of a transaction: it appends a number to a list, or reads a whole list.
type List struct {
	Key    int64   `json:"k"`
	Append bool    `json:"a,omitempty"`
	Value  int64   `json:"v,omitempty"` // Appended.
	Read   []int64 `json:"r,omitempty"` // Read; of a transaction that is ok alone.
}
