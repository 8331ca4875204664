package nodefacts

import "github.com/seatrial/seatrial/chaos/history"

// Where the CSI driver records its calls.
const (
	csiNodePath       = "/var/lib/seatrial/disk/node/calls.jsonl"
	csiControllerPath = "/var/lib/seatrial/disk/controller/calls.jsonl"
)

// file is a file of facts that a program on every node appends to, a line of JSON for each fact. Its writer adds an
// observer fact each second, with the time up to which it has seen everything.
type file struct {
	path   string // On the node.
	name   string // For errors and details.
	source string // The source of its facts, before a slash and the node's name.
	// observer is the one whose beats show how far the file was read. Gaps of the reader are recorded as its own.
	observer string
	others   []string // They write to the file too. A line that cannot be read is a loss of each observer.
	written  string   // The name of observer in the file, if that differs.
	kinds    []history.Kind
	csi      bool // Only where the CSI driver runs.

	controlPlane bool // Only on nodes of the control plane.
}

// files lists the files. Only a node's own CSI driver knows which disks were pulled out of the node.
func files() []file {
	return []file{
		{
			path: LedgerPath, name: "the ledger", source: "ledger",
			observer: "mounts", others: []string{"processes", "holdings"},
			kinds: []history.Kind{history.KindMount, history.KindProcess, history.KindHolding, history.KindObserver},
		},
		{
			path: csiNodePath, name: "the record of the node service's calls", source: "csi", observer: "csi",
			written: "csi", csi: true,
			kinds: []history.Kind{history.KindCSI, history.KindObserver, history.KindPull},
		},
		{
			path: csiControllerPath, name: "the record of the controller service's calls", source: "csi-controller",
			observer: "csi-controller", written: "csi", csi: true, controlPlane: true,
			kinds: []history.Kind{history.KindCSI, history.KindObserver},
		},
	}
}
