package csicalls

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/observe/tail"
)

// The names of the observers, as facts carry them.
const (
	ObserverNode       = "csi"            // The driver's node service, on every node.
	ObserverController = "csi-controller" // The driver's controller service, on the control plane.
)

// Where the driver writes its calls down.
const (
	NodePath       = "/var/lib/seatrial/disk/node/calls.jsonl"
	ControllerPath = "/var/lib/seatrial/disk/controller/calls.jsonl"
)

// written is what the driver calls itself in both files.
const written = "csi"

// Tailer reads the calls of the driver.
type Tailer struct{ node, controller *tail.Tailer }

func nodeCalls() tail.File {
	return tail.File{
		Path: NodePath, Name: "the record of the node service's calls",
		Source: ObserverNode, Observer: ObserverNode, Written: written,
		Kinds: append(kinds(), history.KindPull), // Only a node's own driver knows what it lost.
	}
}

func controllerCalls() tail.File {
	return tail.File{
		Path: ControllerPath, Name: "the record of the controller service's calls",
		Source: ObserverController, Observer: ObserverController, Written: written, Kinds: kinds(),
	}
}

func kinds() []history.Kind { return []history.Kind{history.KindCSI, history.KindObserver} }

// Start begins to read the calls of every node, and of the controller on every node of the control plane, from the
// begin of the files. It goes on until Stop, or until ctx ends; what ctx cuts off is recorded as a gap.
func Start(ctx context.Context, nodes []clusters.Node, recorder history.Recorder, log *slog.Logger) *Tailer {
	controllers := slices.DeleteFunc(slices.Clone(nodes), func(n clusters.Node) bool {
		return n.Role() != clusters.RoleControlPlane
	})
	return &Tailer{
		node:       tail.Start(ctx, nodeCalls(), nodes, recorder, log),
		controller: tail.Start(ctx, controllerCalls(), controllers, recorder, log),
	}
}

// Stop reads every file up to this moment and ends. One that could not be read so far within ten seconds, or before ctx
// ended, gets a gap on record.
func (t *Tailer) Stop(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { t.node.Stop(ctx) })
	both.Go(func() { t.controller.Stop(ctx) })
	both.Wait()
}
