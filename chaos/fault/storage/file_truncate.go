package storage

import (
	"fmt"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
)

// FileTruncate returns the fault that cuts the second half of a file in the victim's volume off, as a repair of a file
// system does that gives up what it cannot place. It is declared corruption: a trial that has it and finds nothing is
// UNKNOWN.
//
// What: the file is truncated to half its pages of 16 KiB, and synced.
//
// Shown: the file is as short where the victim's process sees it.
//
// Healed: it is not. The volume around it can be read and written; the checks must find the damage.
func FileTruncate() fault.Definition {
	return damages(fault.Definition{
		Name:     "file-truncate",
		Summary:  "Cuts the second half of a file in the victim's volume off, for good; the checks must find it.",
		Shown:    "The file is as short where the victim sees it.",
		Healed:   "It is not: the damage stays for the checks to find. The volume can be read and written.",
		Upstream: "e2fsck(8), lost blocks",
	}, volfault.Truncate, func(done volfault.Damage, seen volfault.FileView) string {
		switch {
		case done.Length == 0:
			return "nothing of it was cut off"
		case seen.Size != done.Offset:
			return fmt.Sprintf("it has %d bytes, want %d", seen.Size, done.Offset)
		}
		return ""
	})
}
