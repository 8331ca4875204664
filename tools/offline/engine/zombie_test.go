package engine

import "testing"

// TestAKilledDockerdDoesNotRun: its number and name are still there, its state says that it is dead.
func TestAKilledDockerdDoesNotRun(t *testing.T) {
	const rest = " 4194560 1 2 3 4 5 6 7 8 20 0 9 0 210932 1 2 3"
	for stat, want := range map[string]int{
		"7 (dockerd) S 1 7 7 0 -1": 7,
		"7 (dockerd) R 1 7 7 0 -1": 7,
		"7 (dockerd) Z 1 7 7 0 -1": 0,
		"7 (dockerd) X 1 7 7 0 -1": 0,
	} {
		machine := &fakeMachine{files: map[string]string{
			"/var/run/docker.pid": "7", "/proc/7/comm": "dockerd\n", "/proc/7/stat": stat + rest,
		}}
		if got := dockerPID(machine); got != want {
			t.Errorf("%s: pid %d, want %d", stat, got, want)
		}
	}
}
