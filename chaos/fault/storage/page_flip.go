package storage

import (
	"fmt"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
)

// PageFlip returns the fault that flips bytes of one page of a file in the victim's volume, as a disk does that returns
// what was never written. It is declared corruption: a trial that has it and finds nothing is UNKNOWN.
//
// What: 64 bytes in the first half of the page of 16 KiB nearest to the middle of the file that has anything in it are
// inverted on the disk, and the page dropped from the kernel's cache. A server that has the page in memory does not
// notice until it reads it again: restart it, to see what it says.
//
// Shown: the digest of that page, as the victim's process reads the file, is the one that the disk has now, and not the
// one of before.
//
// Healed: it is not. The volume around it can be read and written; the checks must find the damage.
func PageFlip() fault.Definition {
	return damages(fault.Definition{
		Name:    "page-flip",
		Summary: "Flips bytes of a page of a file in the victim's volume, for good; the checks must find it.",
		Shown:   "The digest of the page, as the victim reads the file, is another than before.",
		Healed:  "It is not: the damage stays for the checks to find. The volume can be read and written.",
		// Page checksums are there for that.
		Upstream: "MySQL Reference Manual, innodb_checksum_algorithm",
	}, volfault.Flip, func(done volfault.Damage, seen volfault.FileView) string {
		switch {
		case done.After == done.Before:
			return fmt.Sprintf("page %d was not changed", done.Page)
		case seen.Page != done.After:
			return fmt.Sprintf("page %d has the SHA-256 %.12s, want %.12s, as it was written", done.Page, seen.Page,
				done.After)
		}
		return ""
	})
}
