package kind

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/clusters"
)

var (
	before = []string{"172.18.0.3", "fc00::3"}
	other  = []string{"172.18.0.2", "fc00::2"}
)

func put(t *testing.T, e engine, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(filepath.Dir(e.path), name), []byte(text), 0o600))
}

func TestPowerArgvGolden(t *testing.T) {
	inspect, network := "inspect --type container n", "network inspect kind"
	seat := "run --detach --rm --name n-seat --network kind --cap-add NET_ADMIN " +
		"--entrypoint find  / -maxdepth 0 -exec ip link set eth0 down ; -exec sleep 3600 ;"
	look, leave := "inspect --type container n-seat", "rm --force --volumes n-seat"
	files := []string{"cp n:/kind/old-ipv4 -", "cp n:/kind/old-ipv6 -"}
	for _, tc := range []struct {
		name, state string
		do          func(*node, context.Context) error
		want        []string
		after       string
	}{
		{"reboot", "running", func(n *node, ctx context.Context) error { return n.Reboot(ctx, 1500*time.Millisecond) },
			[]string{inspect, network, "restart -t 2 n", inspect}, "running"},
		{"reboot a paused one", "paused", func(n *node, ctx context.Context) error { return n.Reboot(ctx, 0) },
			[]string{inspect, network, "unpause n", "restart -t 0 n", inspect}, "running"},
		{"reboot a stopped one", "exited", func(n *node, ctx context.Context) error { return n.Reboot(ctx, 0) },
			[]string{inspect, files[0], files[1], leave, "restart -t 0 n", inspect}, "running"},
		{"stop", "running", func(n *node, ctx context.Context) error { return n.Stop(ctx, 3*time.Second) },
			[]string{inspect, "stop -t 3 n", network, seat, look, leave}, "exited"},
		{"start", "exited", (*node).Start,
			[]string{inspect, inspect, files[0], files[1], leave, "start n", inspect}, "running"},
		{"start a running one", "running", (*node).Start, []string{inspect}, "running"},
		{"start a paused one", "paused", (*node).Start, []string{inspect}, "paused"},
		{"kill", "running", (*node).Kill, []string{inspect, "kill --signal KILL n", network, seat, look, leave},
			"exited"},
		{"kill a stopped one", "exited", (*node).Kill, []string{inspect}, "exited"},
		{"pause", "running", (*node).Pause, []string{inspect, "pause n"}, "paused"},
		{"pause a paused one", "paused", (*node).Pause, []string{inspect}, "paused"},
		{"unpause", "paused", (*node).Unpause, []string{inspect, "unpause n"}, "running"},
		{"unpause a running one", "running", (*node).Unpause, []string{inspect}, "running"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var addrs []string
			if tc.state != clusters.StateExited {
				addrs = before
			}
			e := fakeEngine(t, made("n", "c", "worker", "", tc.state, addrs...))
			put(t, e, "next-addresses", before[0]+" "+before[1])
			n := aNode(e, "n")
			must(t, tc.do(n, t.Context()))
			if diff := cmp.Diff(tc.want, calls(t, e)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if state, err := n.State(t.Context()); err != nil || state != tc.after {
				t.Errorf("state = %q, %v, want %q", state, err, tc.after)
			}
		})
	}
}

func TestOtherAddressesAreAnError(t *testing.T) {
	ctx := t.Context()
	e := fakeEngine(t, made("n", "c", "worker", "", "running", before...))
	put(t, e, "ipv4", before[0]+"\n")
	put(t, e, "ipv6", before[1])
	put(t, e, "next-addresses", other[0]+" "+other[1])
	n := aNode(e, "n")
	want := fmt.Sprintf(`node "n" came back with other addresses, before %v, now %v: `, before, other)
	check := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %v, want %s", what, err, want)
		}
	}
	check("reboot", n.Reboot(ctx, 0))
	got, err := n.Addresses(ctx)
	must(t, err)
	if diff := cmp.Diff(other, []string{got[0].String(), got[1].String()}); diff != "" {
		t.Errorf("addresses are not followed (-want +got):\n%s", diff)
	}
	must(t, n.Reboot(ctx, 0)) // Nothing changes this time.
	must(t, n.Kill(ctx))
	if addrs, err := n.Addresses(ctx); err == nil {
		t.Errorf("a stopped node has addresses %v", addrs)
	}
	check("start", n.Start(ctx)) // The node's own files still tell the first addresses.
}

func TestPowerErrors(t *testing.T) {
	ctx := t.Context()
	e := fakeEngine(t, made("n", "c", "worker", "", "running", before...))
	put(t, e, "refuse-restart", "Error response from daemon: device or resource busy")
	err := aNode(e, "n").Reboot(ctx, 0)
	want := `reboot node "n": docker restart -t 0 n: exit status 1: Error response from daemon: device or resource busy`
	if err == nil || err.Error() != want {
		t.Errorf("reboot = %v, want %s", err, want)
	}
	if err := aNode(e, "gone").Pause(ctx); err == nil {
		t.Error("pausing a node that is not there is no error")
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if err := aNode(e, "n").Stop(done, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("stop with an ended context = %v", err)
	}
}

// The addresses 3 and 4 of both families are free: they are held while the node with 5 restarts.
func TestLowerAddressesAreHeld(t *testing.T) {
	addrs := []string{"172.18.0.5", "fc00::5"}
	c := made("n", "c", "worker", "", "running", addrs...)
	c.Image = "sha256:1"
	e := fakeEngine(t, c)
	put(t, e, "next-addresses", strings.Join(addrs, " "))
	n := aNode(e, "n")
	must(t, n.Reboot(t.Context(), 0))
	run := "run --detach --rm --name n-hold-MARK --network kind --entrypoint sleep sha256:1 60"
	inspect := "inspect --type container n"
	want := []string{
		inspect, "network inspect kind", run, run, "restart -t 0 n",
		"rm --force --volumes n-hold-MARK n-hold-MARK", inspect,
	}
	got, mark := calls(t, e), regexp.MustCompile(`n-hold-[0-9A-Z]{20,}`)
	for i := range got {
		got[i] = mark.ReplaceAllString(got[i], "n-hold-MARK")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	put(t, e, "refuse-run", "Error response from daemon: no such image")
	must(t, n.Reboot(t.Context(), 0)) // It came back with its addresses all the same.
	put(t, e, "next-addresses", strings.Join(other, " "))
	err := n.Reboot(t.Context(), 0)
	if err == nil || !strings.Contains(err.Error(), "other addresses") ||
		!strings.Contains(err.Error(), "hold free addresses") {
		t.Errorf("reboot = %v, want that the addresses are others and why nothing was held", err)
	}
}

// While it is down, a container that does nothing has the node's addresses, and goes when the node or the cluster does.
func TestAddressesAreKeptWhileANodeIsDown(t *testing.T) {
	const run, leave = "run --detach --rm --name n-seat --network kind ", "rm --force --volumes n-seat"
	for _, tc := range []struct {
		name, seat string
		left       bool
	}{
		{"the node's", "172.18.0.3 fc00::3", false},
		{"others", "172.18.0.9 fc00::9", true},
	} {
		e := fakeEngine(t, made("n", "c", "worker", "", "running", before...))
		put(t, e, "next-addresses", before[0]+" "+before[1])
		put(t, e, "seat-addresses", tc.seat)
		n := aNode(e, "n")
		must(t, n.Kill(t.Context()))
		made := calls(t, e)
		if !strings.HasPrefix(made[3], run) || (made[len(made)-1] == leave) != tc.left {
			t.Errorf("%s: kill calls %q", tc.name, made)
		}
		must(t, n.Start(t.Context()))
		if all := calls(t, e); !slices.Contains(all[len(made):], leave) {
			t.Errorf("%s: start calls %q", tc.name, all[len(made):])
		}
	}
	e := fakeEngine(t, made("n", "c", "worker", "", "exited"), made("m", "c", "worker", "", "running", before...))
	p := &Provider{engine: e}
	list, err := e.inspect(t.Context(), "n", "m")
	must(t, err)
	must(t, p.removeSeats(t.Context(), list))
	if all := calls(t, e); strings.Join(all[1:], "\n") != leave {
		t.Errorf("removal calls %q", all[1:])
	}
}

func TestFreeBelow(t *testing.T) {
	var list []network
	must(t, json.Unmarshal([]byte(fakeNetwork), &list))
	for addr, want := range map[string]int{
		"172.18.0.2": 0, "172.18.0.3": 0, "172.18.0.4": 1, "fc00::6": 3, "172.18.9.9": maxHolders + 1, "10.0.0.9": 0,
	} {
		if got := list[0].freeBelow(netip.MustParseAddr(addr)); got != want {
			t.Errorf("freeBelow(%s) = %d, want %d", addr, got, want)
		}
	}
}
