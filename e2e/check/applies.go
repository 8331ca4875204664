package check

import (
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// hasData reports that the plan's workload is a database that clients write to. A history without a plan may have
// planned anything.
func hasData(h *world.World) bool {
	s, err := h.Trial()
	return err != nil || !s.Plan.Workload.Light
}

// onSharedDisk reports that the plan puts the workload on disks that are attached. A history without a plan may have
// planned anything.
func onSharedDisk(h *world.World) bool {
	s, err := h.Trial()
	return err != nil || s.Plan.Workload.StorageName() == plan.StorageSharedDisk
}
