package storage

import (
	"cmp"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// DeviceGone returns the fault that takes the disk away under the victim, while its node stays up.
//
// What: the file system of the volume is shut down without its log being flushed (FS_IOC_SHUTDOWN), as the kernel does
// by itself when the device below fails. Whatever was not synced is gone.
//
// Shown: a read and a write fail with an I/O error, where the victim's process sees the volume.
//
// Healed: what runs on the volume is killed, with the kubelet stopped for that moment, and the file system mounted
// anew wherever it was; its log is replayed. A timer on the node does so when nobody heals it. The victim can read and
// write, and its pod is Ready with new containers.
func DeviceGone() fault.Definition {
	return fault.Definition{
		Name:    "device-gone",
		Summary: "Takes the disk away under the victim, whose node is up: every access to its volume is an I/O error.",
		Shown:   "A read and a write fail with an I/O error where the victim sees the volume.",
		Healed: "The file system is mounted anew and its log replayed; the victim can read and write, its pod Ready " +
			"with new containers.",
		Needs: []string{"systemd"},
		Takes: []plan.Part{plan.PartVolume},
		// What a database does after an error of fsync: to try again and take the second answer for true loses data.
		Upstream: "fsync(2), EIO; MySQL Reference Manual, InnoDB I/O errors; PostgreSQL's fsync errors of 2018",
		New: func(_ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
			h := &harm{
				env: env, owner: undo.Owner{Run: env.RunID, Step: step}, kind: volfault.Gone,
				kills: true,
				amiss: func(r volfault.Report) string {
					return cmp.Or(unlike(r, volfault.AccessRead, "EIO", "ESHUTDOWN"),
						unlike(r, volfault.AccessWrite, "EIO", "ESHUTDOWN"))
				},
			}
			return h, h.owner.Check()
		},
	}
}
