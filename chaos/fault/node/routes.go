package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/linux"
)

// volumeRoot is where every node mounts local volumes.
const volumeRoot = "/mnt/seatrial/"

// again waits until read returns everything that is in before.
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

// podRoutes returns the sorted routes on the victim to pods of other nodes. Some network plugins need none.
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

// parseRoutes parses the JSON of ip route and returns the routes to the given ranges, with their gateways.
func parseRoutes(out string, ranges []netip.Prefix) ([]string, error) {
	if strings.TrimSpace(out) == "" {
		return nil, nil // Older versions of ip print nothing without a route.
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
		if err != nil || !slices.Contains(ranges, to) { // Skip "default", single hosts and other ranges.
			continue
		}
		routes = append(routes, strings.TrimSpace(r.To+" via "+r.Via))
	}
	return routes, nil
}

// volumeMounts returns the sorted mount points of local volumes on a node.
func volumeMounts(ctx context.Context, node clusters.Node) ([]string, error) {
	out, err := clusters.Run(ctx, node, "cat", "/proc/1/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	mounts, err := linux.Mounts(out)
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	var points []string
	for _, m := range mounts {
		if strings.HasPrefix(m.Mountpoint, volumeRoot) {
			points = append(points, m.Mountpoint)
		}
	}
	slices.Sort(points)
	return slices.Compact(points), nil
}
