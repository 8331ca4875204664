package rundir_test

import (
	"os"
	"testing"

	"github.com/seatrial/seatrial/e2e/rundir"
)

// TestRoomIsKeptUntilItIsNeeded shows that the room is really taken, and given back once.
func TestRoomIsKeptUntilItIsNeeded(t *testing.T) {
	d := create(t, t.TempDir())
	info, err := os.Stat(d.File(rundir.ReserveFile))
	if err != nil || info.Size() < 1<<20 {
		t.Fatalf("kept %v, %v", info, err)
	}
	for range 2 {
		if err := d.FreeReserve(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(d.File(rundir.ReserveFile)); !os.IsNotExist(err) {
		t.Errorf("after it was freed: %v", err)
	}
}
