package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/clusters"
)

// volumeRoot is where local volumes are mounted on every node.
const volumeRoot = "/mnt/seatrial/"

// again waits until everything of before is there again.
func again(env fault.Env, what string, before []string, read func(context.Context) ([]string, error)) fault.Show {
	return fault.Await(what+" to be back", 500*time.Millisecond, time.Minute,
		fault.Judged(env, read, func(now []string) (string, error) {
			missing := slices.DeleteFunc(slices.Clone(before), func(s string) bool { return slices.Contains(now, s) })
			switch {
			case len(missing) > 0:
				return "", fault.NotYet("missing: %s", strings.Join(missing, ", "))
			case len(before) == 0:
				return fmt.Sprintf("there were no %s before", what), nil
			}
			return fmt.Sprintf("%d %s are back: %s", len(before), what, strings.Join(before, ", ")), nil
		}))
}

// podRoutes returns the routes on the victim that lead to the pods of other nodes, in order. A network plugin that
// needs none has none.
func podRoutes(ctx context.Context, env fault.Env) ([]string, error) {
	nodes, err := env.Others(ctx)
	if err != nil {
		return nil, err
	}
	var ranges []netip.Prefix
	for _, n := range nodes {
		cidrs, err := env.PodCIDRs(ctx, n.Name())
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, cidrs...)
	}
	var routes []string
	for _, family := range []string{"-4", "-6"} {
		out, err := clusters.Run(ctx, env.Node, "ip", "-json", family, "route", "show")
		if err != nil {
			return nil, fmt.Errorf("list routes: %w", err)
		}
		found, err := parseRoutes(out, ranges)
		if err != nil {
			return nil, err
		}
		routes = append(routes, found...)
	}
	slices.Sort(routes)
	return routes, nil
}

// parseRoutes reads the JSON of ip route and returns the routes to one of the ranges, with their gateways.
func parseRoutes(out string, ranges []netip.Prefix) ([]string, error) {
	if strings.TrimSpace(out) == "" {
		return nil, nil // Older versions of ip write nothing when there is no route.
	}
	var all []struct {
		To  string `json:"dst"`
		Via string `json:"gateway"`
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fmt.Errorf("list routes: decode answer %.80q: %w", out, err)
	}
	var routes []string
	for _, r := range all {
		to, err := netip.ParsePrefix(r.To)
		if err != nil || !slices.Contains(ranges, to) { // "default", a single host, or a range of others.
			continue
		}
		routes = append(routes, strings.TrimSpace(r.To+" via "+r.Via))
	}
	return routes, nil
}

// volumeMounts returns the mount points of local volumes on a node, in order.
func volumeMounts(ctx context.Context, node clusters.Node) ([]string, error) {
	out, err := clusters.Run(ctx, node, "cat", "/proc/1/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(out), func(m *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(m.Mountpoint, volumeRoot), false
	})
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	points := make([]string, len(mounts))
	for i, m := range mounts {
		points[i] = m.Mountpoint
	}
	slices.Sort(points)
	return slices.Compact(points), nil
}
