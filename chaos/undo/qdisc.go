package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Qdisc is a queueing discipline as tc tells of it.
type Qdisc struct {
	Kind       string `json:"kind"`
	Handle     string `json:"handle"` // "5ea:".
	Device     string `json:"dev"`
	Root       bool   `json:"root"`
	Bytes      uint64 `json:"bytes"`      // Of the packets that it has let go.
	Drops      uint64 `json:"drops"`      // Packets that it had no room for.
	Overlimits uint64 `json:"overlimits"` // How often it has held packets back.
}

// ListQdiscs returns the queueing disciplines of the node that are the owner's: by their handle, and by their kinds,
// which are those of faults.
func ListQdiscs(ctx context.Context, run Runner, owner Owner) ([]Qdisc, error) {
	out, err := run(ctx, []string{"tc", "-s", "-json", "qdisc", "show"}, "")
	if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	if strings.TrimSpace(out) == "" {
		return nil, nil
	}
	var all, ours []Qdisc
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fmt.Errorf("list queueing disciplines: decode answer %.80q: %w", out, err)
	}
	for _, q := range all {
		if q.Root && q.Handle == owner.Qdisc() && (q.Kind == "netem" || q.Kind == "tbf") {
			ours = append(ours, q)
		}
	}
	return ours, nil
}

// QdiscGone removes the owner's queueing discipline from a device, if it is there: the kernel gives the device its own
// again.
func QdiscGone(ctx context.Context, run Runner, owner Owner, device string) error {
	there := func() (bool, error) {
		ours, err := ListQdiscs(ctx, run, owner)
		for _, q := range ours {
			if q.Device == device {
				return true, err
			}
		}
		return false, err
	}
	if is, err := there(); err != nil || !is {
		return err
	}
	// The kernel refuses another handle than that of the one that is there.
	_, err := run(ctx, []string{"tc", "qdisc", "del", "dev", device, "root", "handle", owner.Qdisc()}, "")
	if err == nil {
		return nil
	}
	is, again := there()
	if again == nil && !is {
		return nil // Another heal was quicker.
	}
	return errors.Join(fmt.Errorf("remove queueing discipline %s of device %q: %w", owner.Qdisc(), device, err), again)
}
