package undo_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/fake"
)

// holdings are of a kubelet that is stopped, a manifest that was changed, one that was to be, and things of others.
const holdings = `/var/lib/seatrial/held/by-hand
/var/lib/seatrial/held/by-hand/kubelet
/var/lib/seatrial/held/seatrial-r1-10
/var/lib/seatrial/held/seatrial-r1-10/kube-controller-manager.yaml.new
/var/lib/seatrial/held/seatrial-r1-1
/var/lib/seatrial/held/seatrial-r1-1/kubelet
/var/lib/seatrial/held/seatrial-r2-1/kube-controller-manager.yaml
/var/lib/seatrial/held/seatrial-r2-1
`

func TestWhatIsHeldIsReleasedByItsMark(t *testing.T) {
	const (
		held1  = "rm -rf /var/lib/seatrial/held/seatrial-r1-1"
		held10 = "rm -rf /var/lib/seatrial/held/seatrial-r1-10"
		start  = "systemctl start kubelet"
		back   = "cp -p /var/lib/seatrial/held/seatrial-r2-1/kube-controller-manager.yaml " +
			"/etc/kubernetes/seatrial-r2-1.yaml"
		swap  = "mv -f /etc/kubernetes/seatrial-r2-1.yaml /etc/kubernetes/manifests/kube-controller-manager.yaml"
		held2 = "rm -rf /var/lib/seatrial/held/seatrial-r2-1 /etc/kubernetes/seatrial-r2-1.yaml " +
			"/etc/kubernetes/seatrial-r2-1.yaml.new"
	)
	for _, tc := range []struct {
		name string
		only undo.Only
		acts []string
		held []string
	}{
		{"a step", undo.Of("r1", 1), []string{start, held1}, []string{"seatrial-r1-1 kubelet"}},
		{"another", undo.Of("r1", 10), []string{held10},
			[]string{"seatrial-r1-10 kube-controller-manager.yaml.new"}},
		{"a run", undo.Of("r2", 0), []string{back, swap, held2},
			[]string{"seatrial-r2-1 kube-controller-manager.yaml"}},
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
	for _, program := range []string{"systemctl", "cp", "mv"} {
		c := holder()
		owner, pattern := undo.Owner{Run: "r2", Step: 1}, []string{program, "..."}
		if program == "systemctl" {
			owner, pattern = undo.Owner{Run: "r1", Step: 1}, []string{"systemctl", "start", "kubelet"}
		}
		c.On(pattern, fake.Reply{ExitCode: 1, Stderr: "broken"})
		err := undo.Release(t.Context(), undo.On(c.Node("worker")), owner)
		if err == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), owner.Name()) {
			t.Errorf("%s: got %v", program, err)
		}
		for _, line := range changes(c) {
			if strings.HasPrefix(line, "rm") {
				t.Errorf("%s: the mark is gone: %s", program, line)
			}
		}
	}
}

// TestTheThingsOfOneOwnerBelongTogether has the directory of another run between an owner's and what is in it.
func TestTheThingsOfOneOwnerBelongTogether(t *testing.T) {
	const dir = undo.HeldDir + "seatrial-r1-1"
	c := holder()
	c.On([]string{"find", "/var/lib", "-ignore_readdir_race", "-mindepth", "1", "..."}, fake.Reply{
		Stdout: dir + "\n" + dir + "/kubelet\n" + dir + "-5\n" + dir + "/etcd.yaml\n",
	})
	got, err := undo.Node(t.Context(), undo.On(c.Node("worker")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"seatrial-r1-1 etcd.yaml kubelet", "seatrial-r1-1-5"}, got.Held); d != "" {
		t.Errorf("held (-want +got):\n%s", d)
	}
	if all := changes(c); !strings.HasPrefix(all[0], "cp") || !strings.HasPrefix(all[3], "rm") {
		t.Errorf("the marks go before the things: %q", all)
	}
}

// TestWhatAnotherHealReleasesIsNoError has somebody else release the same things at the same time.
func TestWhatAnotherHealReleasesIsNoError(t *testing.T) {
	owner := undo.Owner{Run: "r2", Step: 1}
	broken := fake.Reply{ExitCode: 1, Stderr: "No such file or directory"}
	for name, found := range map[string][]fake.Reply{
		"all of it":      {{Stdout: holdings}, {}},
		"some, at first": {{Stdout: holdings}, {Stdout: holdings}},
	} {
		t.Run(name, func(t *testing.T) {
			c := holder()
			c.On([]string{"find", "/var/lib", "-ignore_readdir_race", "-mindepth", "1", "..."}, found...)
			c.On([]string{"mv", "..."}, broken, fake.Reply{})
			if err := undo.Release(t.Context(), undo.On(c.Node("worker")), owner); err != nil {
				t.Error(err)
			}
		})
	}
}

func holder() *fake.Cluster {
	c := cluster()
	c.On([]string{"find", "/var/lib", "-ignore_readdir_race", "-mindepth", "1", "..."}, fake.Reply{Stdout: holdings})
	for _, program := range []string{"cp", "mv", "rm"} {
		c.On([]string{program, "..."})
	}
	c.On([]string{"systemctl", "start", "kubelet"})
	return c
}

// changes returns the commands that change what is held.
func changes(c *fake.Cluster) []string {
	var out []string
	for _, a := range c.Transcript.Acts() {
		line := strings.Join(a.Argv, " ")
		if strings.HasPrefix(line, "systemctl start") || a.Argv[0] == "cp" || a.Argv[0] == "mv" || a.Argv[0] == "rm" {
			out = append(out, line)
		}
	}
	return out
}
