package storage

import (
	"cmp"
	"fmt"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// fewBlocks is how many blocks a full file system may speak of: xfs keeps some for its own trees and counts them.
const fewBlocks = 64

// VolumeFull returns the fault that fills the victim's volume.
//
// What: a file of ours takes every block that the file system can give, those that are kept for root among them.
//
// Shown: statfs tells of no more blocks than the file system keeps for itself, and a write fails for want of space
// while a read succeeds, where the victim's process sees the volume.
//
// Healed: the file is removed; a timer on the node does so when nobody heals it. The victim can write, and its pod is
// Ready.
func VolumeFull() fault.Definition {
	return fault.Definition{
		Name:    "volume-full",
		Summary: "Fills the victim's volume to its last block.",
		Shown:   "The file system has no block to give, and a write fails for want of space where the victim sees it.",
		Healed:  "The file of ours is removed; the victim can write, and its pod is Ready.",
		Needs:   []string{"systemd"},
		Takes:   []plan.Part{plan.PartVolume},
		// A server waits for space and goes on, or tells its clients; it must not acknowledge what it could not keep.
		Upstream: "MySQL Reference Manual, How MySQL Handles a Full Disk",
		New: func(_ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
			h := &harm{
				env: env, owner: undo.Owner{Run: env.RunID, Step: step}, kind: volfault.Full,
				amiss: func(r volfault.Report) string {
					left := ""
					if r.Available > fewBlocks {
						left = fmt.Sprintf("%d blocks can be had", r.Available)
					}
					return cmp.Or(unlike(r, volfault.AccessRead), unlike(r, volfault.AccessWrite, "ENOSPC"), left)
				},
			}
			return h, h.owner.Check()
		},
	}
}
