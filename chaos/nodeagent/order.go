package nodeagent

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// Order is what a node carries out alone, while nobody may be able to reach it.
type Order struct {
	Lead  time.Duration `json:"lead"` // Until the act, so that the order's sender still hears that it was taken.
	Act   Step          `json:"act"`
	Looks []Step        `json:"looks"` // Carried out in turn after the act, again and again.
	Every time.Duration `json:"every"` // From the end of the looks until they begin again.
	Lasts time.Duration `json:"lasts"` // From the act to its end.
	End   Step          `json:"end"`   // Undoes the act.
}

// Step is a command of an order.
type Step struct {
	Argv  []string `json:"argv"`
	Stdin string   `json:"stdin,omitempty"`
}

// Did is a step that was carried out.
type Did struct {
	Argv  []string     `json:"argv"`
	Begin history.Time `json:"begin" clock:"from"`
	End   history.Time `json:"end" clock:"to"`
	Out   string       `json:"out,omitempty"`
	Error string       `json:"error,omitempty"`
}

// OrderRecord is what a node has done of an order, the first first. The last is the end of the act once it is over.
type OrderRecord struct {
	Did  []Did `json:"did"`
	Over bool  `json:"over"` // The act was ended.
}

// StartOrder hands an order to the node and returns once the node carries it out. The flags name the owner.
func (a Agent) StartOrder(ctx context.Context, owner []string, o Order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return a.Call(ctx, nil, text, slices.Concat([]string{"order", "start"}, owner)...)
}

// EndOrder has the owner's order end its act now and waits for it. It does nothing without an order.
func (a Agent) EndOrder(ctx context.Context, owner []string) error {
	return a.Call(ctx, nil, nil, slices.Concat([]string{"order", "end"}, owner)...)
}

// ReadOrder fetches what the node has done of the owner's order.
func (a Agent) ReadOrder(ctx context.Context, owner []string) (r OrderRecord, err error) {
	return r, a.Call(ctx, &r, nil, slices.Concat([]string{"order", "read"}, owner)...)
}
