package network

import (
	"context"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
)

// rejoining is severed between a whole node and others, of which the control plane hears again after the heal.
type rejoining struct {
	*severed
	leases evidence.Leases // When it was cut off, where that is noted, and then when it was healed.
}

// Heal ends the cut, and notes the leases.
func (r *rejoining) Heal(ctx context.Context) error {
	err := r.severed.Heal(ctx)
	if err != nil {
		return err
	}
	// The lease that the node renews from now on is one that went through.
	if r.leases, err = evidence.ReadLeases(ctx, r.env); err != nil {
		r.env.Log.Warn("read leases after the heal", "error", err) // The API server may be gone; the cut is, too.
	}
	return nil
}

// ConfirmHealed shows that the table is gone, and that everything connects.
func (r *rejoining) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	facts, err := r.severed.ConfirmHealed(ctx)
	if err != nil {
		return facts, err
	}
	return nodeBack(ctx, r.env, r.leases, facts)
}

// nodeBack adds that the lease of the victim's node is renewed, and that the node is Ready.
func nodeBack(ctx context.Context, env fault.Env, since evidence.Leases, facts []fault.Fact) ([]fault.Fact, error) {
	renewed, err := evidence.LeaseRenewed(ctx, env, since, time.Minute)
	if err != nil {
		return facts, err
	}
	ready, err := evidence.NodeReady(ctx, env, time.Minute)
	if err != nil {
		return append(facts, renewed), err
	}
	return append(facts, renewed, ready), nil
}
