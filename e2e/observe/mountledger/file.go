package mountledger

import (
	"log/slog"

	"github.com/seatrial/seatrial/e2e/observe/ledgerfile"
)

// Last is the end of a ledger that was kept earlier.
type Last = ledgerfile.Last

// File is a ledger's file.
type File = ledgerfile.File

// OpenFile opens or makes a ledger's file, and reads where an earlier ledger in it ended.
func OpenFile(path string, log *slog.Logger) (*File, Last, error) {
	return ledgerfile.Open(path, ObserverMounts, log)
}
