package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// listing is what the driver's program says of the fault points in a state directory.
type listing struct {
	Driver struct {
		PID int `json:"pid"` // Of the process that has read them.
	} `json:"driver"`
	Points []point `json:"points"`
	Error  string  `json:"error"` // Why the driver could not read them.
}

// point is one fault point.
type point struct {
	ID      string     `json:"id"`
	Read    bool       `json:"read"` // The running driver has it.
	Hits    int        `json:"hits"` // Calls that it took part in.
	Holding []heldCall `json:"holding"`
}

// heldCall is one call that a point holds now.
type heldCall struct {
	Call  string       `json:"call"`  // As in history.CSI.
	Since history.Time `json:"since"` // Boot clock.
}

// listPoints asks for the fault points of a service on a node.
func listPoints(ctx context.Context, node clusters.Node, service string) (listing, error) {
	out, err := clusters.Run(ctx, node, undo.ListPoints(service)...)
	if err != nil {
		return listing{}, fmt.Errorf("list fault points: %w", err)
	}
	var l listing
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		return listing{}, fmt.Errorf("list fault points: decode answer %.80q: %w", out, err)
	}
	return l, nil
}

// find returns the point with an id.
func (l listing) find(id string) (point, bool) {
	i := slices.IndexFunc(l.Points, func(p point) bool { return p.ID == id })
	if i < 0 {
		return point{}, false
	}
	return l.Points[i], true
}

// holds names the calls that are held now.
func (p point) holds() string {
	if len(p.Holding) == 0 {
		return "none of them now: the callers have given up"
	}
	names := make([]string, len(p.Holding))
	for i, h := range p.Holding {
		names[i] = fmt.Sprintf("call %s since %s", h.Call, h.Since)
	}
	return strings.Join(names, ", ")
}
