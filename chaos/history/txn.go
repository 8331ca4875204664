package history

// Txn is a transaction on lists of numbers, on registers that hold one number each, or on accounts.
type Txn struct {
	Level string `json:"level"`          // The isolation level as SQL names it: "REPEATABLE READ".
	Auto  bool   `json:"auto,omitempty"` // One statement that commits by itself.
	// On is what it works on: OnLists (empty), OnRegisters or OnAccounts.
	On  string   `json:"on,omitempty"`
	Ops []Access `json:"ops"` // In order; in one statement, if Auto.
}

// What transactions work on. No number is written twice to the same list, and none to two registers.
const (
	OnLists     = ""
	OnRegisters = "registers"
	OnAccounts  = "accounts"
)

// The accounts of an instance, by key from 0 on, and what each holds in the beginning.
const (
	Accounts = 5
	Opening  = 100
)

// Auditor is the client that reads everything in the end.
const Auditor = 0

// Levels returns the isolation levels of SQL, from the weakest on.
func Levels() []string {
	return []string{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}
}

// Access is one operation of a transaction: it writes a number, or reads. A write appends to a list, sets a register,
// or adds to an account.
type Access struct {
	Key   int64   `json:"k"`
	Write bool    `json:"a,omitempty"`
	Value int64   `json:"v,omitempty"` // Written.
	Read  []int64 `json:"r,omitempty"` // The list, or what is held, if it is there; of a transaction that is ok alone.
}
