package undo_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/fake"
)

// holdings are of a Node that was deleted, one that was to be, and things of others. The directory of another owner is
// between an owner's and what is in it.
const holdings = `/var/lib/seatrial/held/by-hand
/var/lib/seatrial/held/by-hand/registration
/var/lib/seatrial/held/seatrial-r1-1
/var/lib/seatrial/held/seatrial-r1-1-5
/var/lib/seatrial/held/seatrial-r1-1/registration
/var/lib/seatrial/held/seatrial-r1-10
`

func holder() *fake.Cluster {
	c := cluster()
	c.On([]string{"find", "/var/lib", "-ignore_readdir_race", "-mindepth", "1", "..."}, fake.Reply{Stdout: holdings})
	c.On([]string{"systemctl", "restart", "kubelet"})
	return c
}

// changes returns the commands that change what is held.
func changes(c *fake.Cluster) []string {
	var out []string
	for _, a := range c.Transcript.Acts() {
		line := strings.Join(a.Argv, " ")
		if strings.HasPrefix(line, "systemctl restart") || strings.HasPrefix(line, "rm -rf") {
			out = append(out, line)
		}
	}
	return out
}

func TestWhatIsHeldIsReleasedByItsMark(t *testing.T) {
	const restart, held = "systemctl restart kubelet", "rm -rf /var/lib/seatrial/held/seatrial-"
	for _, tc := range []struct {
		name string
		only undo.Only
		acts []string
		held []string
	}{
		{"a step", undo.Of("r1", 1), []string{restart, held + "r1-1"}, []string{"seatrial-r1-1 registration"}},
		{"another", undo.Of("r1", 10), []string{held + "r1-10"}, []string{"seatrial-r1-10"}},
		{"none", undo.Of("r3", 0), nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := holder()
			got, err := undo.Node(t.Context(), undo.On(c.Node("worker")), tc.only)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.held, got.Held); d != "" || got.Nothing() != (len(tc.held) == 0) {
				t.Errorf("held (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tc.acts, changes(c)); d != "" {
				t.Errorf("commands (-want +got):\n%s", d)
			}
		})
	}
}

// TestAMarkStaysUntilItsThingIsReleased breaks what releases: the mark must be there for a later heal.
func TestAMarkStaysUntilItsThingIsReleased(t *testing.T) {
	c := holder()
	c.On([]string{"systemctl", "restart", "kubelet"}, fake.Reply{ExitCode: 1, Stderr: "broken"})
	_, err := undo.Node(t.Context(), undo.On(c.Node("worker")), undo.Of("r1", 1))
	if err == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), "seatrial-r1-1") {
		t.Errorf("got %v", err)
	}
	for _, line := range changes(c) {
		if strings.HasPrefix(line, "rm") {
			t.Errorf("the mark is gone: %s", line)
		}
	}
}

// TestWhatAnotherHealReleasesIsNoError has somebody else release the same things at the same time.
func TestWhatAnotherHealReleasesIsNoError(t *testing.T) {
	broken := fake.Reply{ExitCode: 1, Stderr: "No such file or directory"}
	for name, found := range map[string][]fake.Reply{
		"all of it":      {{Stdout: holdings}, {}},
		"some, at first": {{Stdout: holdings}, {Stdout: holdings}},
	} {
		t.Run(name, func(t *testing.T) {
			c := holder()
			c.On([]string{"find", "/var/lib", "-ignore_readdir_race", "-mindepth", "1", "..."}, found...)
			c.On([]string{"rm", "..."}, broken, fake.Reply{})
			if _, err := undo.Node(t.Context(), undo.On(c.Node("worker")), undo.Of("r1", 1)); err != nil {
				t.Error(err)
			}
		})
	}
}
