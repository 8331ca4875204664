package storage

import (
	"cmp"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// VolumeReadOnly returns the fault that makes the victim's volume read-only.
//
// What: the file system is remounted read-only, as ext4 is by itself after an error (errors=remount-ro). The kernel
// refuses that while a file is open for writing, so what runs on the volume is killed first, with the kubelet stopped
// for that moment; what the kubelet starts then finds the volume as it is.
//
// Shown: statfs tells of a read-only file system, and a write fails as on one while a read succeeds, where the victim's
// process sees the volume, or the kubelet's mount for it while none runs.
//
// Healed: the file system is remounted for writing; a timer on the node does so when nobody heals it. The victim can
// write, and its pod is Ready with new containers.
func VolumeReadOnly() fault.Definition {
	return fault.Definition{
		Name:    "volume-read-only",
		Summary: "Makes the victim's volume read-only, as a file system is after an error.",
		Shown:   "The file system is read-only, and a write fails where the victim sees the volume.",
		Healed:  "The file system is remounted for writing; the victim can write, its pod Ready with new containers.",
		Needs:   []string{"systemd"},
		Takes:   []plan.Part{plan.PartVolume},
		// The pod restarts again and again until somebody looks at the node: nothing in the API says why.
		Upstream: "ext4(5), errors=remount-ro",
		New: func(_ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
			h := &harm{
				env: env, owner: undo.Owner{Run: env.RunID, Step: step},
				kind: volfault.ReadOnly, kills: true,
				amiss: func(r volfault.Report) string {
					writable := ""
					if !r.ReadOnly {
						writable = "it is mounted for writing"
					}
					return cmp.Or(writable, unlike(r, volfault.AccessRead), unlike(r, volfault.AccessWrite, "EROFS"))
				},
			}
			return h, h.owner.Check()
		},
	}
}
