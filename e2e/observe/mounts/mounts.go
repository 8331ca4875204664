package mounts

import (
	"context"
	"log/slog"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/observe/install"
	"github.com/seatrial/seatrial/e2e/observe/tail"
)

// Tailer reads the ledgers of nodes.
type Tailer struct{ ledgers *tail.Tailer }

// ledger is the file that package mountledger writes. The observer of mounts speaks for all of it: the observers of
// processes and of holdings write to the same file.
func ledger() tail.File {
	return tail.File{
		Path: install.LedgerPath, Name: "the ledger", Source: "ledger", Observer: "mounts",
		Kinds: []history.Kind{history.KindMount, history.KindProcess, history.KindHolding, history.KindObserver},
	}
}

// Start begins to read the ledger of every node, from its begin. It goes on until Stop, or until ctx ends; what ctx
// cuts off is recorded as a gap.
func Start(ctx context.Context, nodes []clusters.Node, recorder history.Recorder, log *slog.Logger) *Tailer {
	return &Tailer{tail.Start(ctx, ledger(), nodes, recorder, log)}
}

// Stop reads every ledger up to this moment and ends. A node whose ledger could not be read so far within ten seconds,
// or before ctx ended, gets a gap on record.
func (t *Tailer) Stop(ctx context.Context) { t.ledgers.Stop(ctx) }
