package undo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// armedLine is what a process says, once, when it has shown that it could do what it is to do.
const armedLine = "armed\n"

const (
	// lookEvery is how often a process looks whether it was disarmed.
	lookEvery = 100 * time.Millisecond
	// actBound is how long a process goes on trying to bring a node back, from the deadline on.
	actBound = 10 * time.Minute
)

// OpenNode finds the node of an order. A cluster that does not exist is an error that wraps clusters.ErrNotFound.
type OpenNode func(ctx context.Context, o Order) (clusters.Node, error)

// Watch carries an order out: it says that it is armed, waits for the deadline, brings the node back, and undoes what
// else the order's owner has left on it. It returns early, and does nothing, when the order is gone or replaced. The
// order is removed when it was carried out, or when its cluster is gone; after an error it stays, for heal to see.
func Watch(ctx context.Context, path string, open OpenNode, armed io.Writer, log *slog.Logger) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open order: %w", err)
	}
	defer func() { _ = file.Close() }() // Nothing was written to it, and it gives the lock back.
	if free, err := lock(file); err != nil || !free {
		return errors.Join(err, fmt.Errorf("watch %s: somebody does already", path))
	}
	data, err := io.ReadAll(io.LimitReader(file, maxOrder+1))
	if err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	o, err := decodeOrder(data)
	if err != nil {
		return fmt.Errorf("read order %s: %w", path, err)
	}
	node, err := open(ctx, o)
	if err != nil {
		return fmt.Errorf("find node %q: %w", o.Node, err)
	}
	power, ok := node.(clusters.PowerNode)
	if !ok {
		return fmt.Errorf("node %q cannot be brought back: its provider has no power over it", o.Node)
	}
	if _, err := power.State(ctx); err != nil {
		return fmt.Errorf("get state: %w", err)
	}
	if _, err := io.WriteString(armed, armedLine); err != nil {
		return fmt.Errorf("say that it is armed: %w", err)
	}
	if over, err := wait(ctx, file, o); err != nil || !over {
		return err
	}
	log.Info("the time is over", "node", o.Node, "owner", o.Owner().Name())
	if err := act(ctx, file, o, open, log); err != nil {
		return err
	}
	return remove(file)
}

// wait waits for the deadline. It returns false when the order was gone before.
func wait(ctx context.Context, file *os.File, o Order) (over bool, err error) {
	for {
		still, err := there(file)
		if err != nil || !still {
			return false, err
		}
		left := o.left(bootclock.Now())
		if left <= 0 {
			return true, nil
		}
		if err := await.For(ctx, min(left, lookEvery)); err != nil {
			return false, err
		}
	}
}

// act brings the node back. What fails is tried again: an engine that was restarted answers after a while.
func act(ctx context.Context, file *os.File, o Order, open OpenNode, log *slog.Logger) error {
	what := fmt.Sprintf("node %q to be brought back", o.Node)
	return await.Until(ctx, what, time.Second, actBound, func(ctx context.Context) (bool, string, error) {
		if still, err := there(file); err != nil || !still {
			return !still, "", err
		}
		node, err := open(ctx, o)
		if errors.Is(err, clusters.ErrNotFound) {
			log.Info("the cluster is gone", "cluster", o.Cluster)
			return true, "", nil
		}
		if err != nil {
			return false, "", err
		}
		reports, err := Cluster(ctx, []clusters.Node{node}, Of(o.Run, o.Step))
		for _, r := range reports {
			log.Info("healed", "node", r.Node, "what", r.String(), "error", err)
		}
		return err == nil, "", err
	})
}

// remove removes an order and what was said, unless the order was replaced.
func remove(file *os.File) error {
	still, err := there(file)
	if err != nil || !still {
		return err
	}
	return discard(file.Name())
}
