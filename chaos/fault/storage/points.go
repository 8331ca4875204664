package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/heal"
	"github.com/seatrial/seatrial/clusters"
)

// point is one fault point as the driver's program lists it.
type point struct {
	ID     string `json:"id"`
	RPC    string `json:"rpc"`
	Volume string `json:"volume"`
	Action string `json:"action"`
	Hits   int    `json:"hits"` // Calls that it took part in.
	// Held are the calls that it holds now.
	Held []heldCall `json:"held"`
	// Driver is the process that has read it, 0 when none has, or when the one that had is gone.
	Driver int `json:"driver"`
}

// heldCall is one call that a point holds.
type heldCall struct {
	Call string `json:"call"`
	RPC  string `json:"rpc"`
}

// listPoints asks for the fault points of a service on a node.
func listPoints(ctx context.Context, node clusters.Node, service string) ([]point, error) {
	out, err := clusters.Run(ctx, node, heal.ListPoints(service)...)
	if err != nil {
		return nil, fmt.Errorf("list fault points: %w", err)
	}
	var list struct {
		Points []point `json:"points"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("list fault points: decode answer %.80q: %w", out, err)
	}
	return list.Points, nil
}

// findPoint returns the point with an id.
func findPoint(points []point, id string) (point, bool) {
	i := slices.IndexFunc(points, func(p point) bool { return p.ID == id })
	if i < 0 {
		return point{}, false
	}
	return points[i], true
}
