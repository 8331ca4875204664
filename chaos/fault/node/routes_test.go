package node

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseRoutes(t *testing.T) {
	ranges := []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:244:1::/64")}
	for _, tc := range []struct {
		name, out string
		want      []string
		fail      bool
	}{
		{"nothing said", "\n", nil, false},
		{"none", "[ ]", nil, false},
		{"one of others", `[{"dst":"default","gateway":"172.18.0.1","dev":"eth0"},{"dst":"10.244.0.3","dev":"veth1"},
			{"dst":"10.244.2.0/24","gateway":"172.18.0.9"},{"dst":"10.244.1.0/24","gateway":"172.18.0.4"},
			{"dst":"fd00:10:244:1::/64"}]`, []string{"10.244.1.0/24 via 172.18.0.4", "fd00:10:244:1::/64 via"}, false},
		{"not JSON", "default via 172.18.0.1", nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseRoutes(tc.out, ranges)
			if (err != nil) != tc.fail {
				t.Errorf("got %v", err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("routes (-want +got):\n%s", d)
			}
		})
	}
}

func TestVolumeMounts(t *testing.T) {
	n := fake.NewNode("worker", clusters.RoleWorker, nil)
	n.On([]string{"cat", "/proc/1/mountinfo"}, fake.Reply{Stdout: `22 1 0:20 / / rw - overlay overlay rw
41 22 7:4 / /mnt/seatrial/b rw,relatime shared:9 - ext4 /dev/loop4 rw
40 22 7:3 / /mnt/seatrial/a rw,relatime - ext4 /dev/loop3 rw
42 22 7:5 / /mnt/seatrial/a rw,relatime - ext4 /dev/loop5 rw
43 22 7:6 / /mnt/seatrial2/c rw,relatime - ext4 /dev/loop6 rw
`}, fake.Reply{Stdout: "22 1\n"})
	got, err := volumeMounts(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"/mnt/seatrial/a", "/mnt/seatrial/b"}, got); d != "" {
		t.Errorf("mounts (-want +got):\n%s", d)
	}
	if _, err := volumeMounts(t.Context(), n); err == nil {
		t.Error("a torn table passes")
	}
}
