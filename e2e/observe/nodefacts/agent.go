package nodefacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/nodefile"
)

// Installed is the result of Install.
type Installed struct {
	Copied bool          // False if the node had the same binary already.
	On     history.Event // The ledger's fact that it is on; its detail names the method.
}

// Install copies the agent at binaryPath to the node, begins a new ledger there and enables it for every later boot.
// It returns when the ledger is on. It stops a ledger that ran before and removes its file, so that a trial never reads
// the facts of an earlier one.
func Install(ctx context.Context, node clusters.Node, binaryPath string) (Installed, error) {
	var done Installed
	unit, err := unitFile(node.Name())
	if err != nil {
		return done, err
	}
	binary, err := os.ReadFile(binaryPath)
	if err != nil {
		return done, fmt.Errorf("read agent: %w", err)
	}
	if done.Copied, err = nodefile.Place(ctx, node, AgentPath, binary, "0755"); err != nil {
		return done, fmt.Errorf("install agent: %w", err)
	}
	if _, err = nodefile.Place(ctx, node, unitPath, []byte(unit), "0644"); err != nil {
		return done, fmt.Errorf("install unit: %w", err)
	}
	for _, argv := range [][]string{
		{"systemctl", "daemon-reload"},
		{"systemctl", "stop", UnitName},
		{"rm", "-f", LedgerPath},
		{"systemctl", "enable", "--no-reload", "--now", UnitName}, // It was reloaded; each time costs half a second.
	} {
		if _, err := clusters.Run(ctx, node, argv...); err != nil {
			return done, errors.Join(fmt.Errorf("begin ledger: %w", err), ledgerLog(ctx, node, err))
		}
	}
	done.On, err = readOn(ctx, node)
	return done, err
}

// readOn returns the ledger's fact that it is on. The ledger writes it before its unit is up.
func readOn(ctx context.Context, node clusters.Node) (history.Event, error) {
	out, err := clusters.Run(ctx, node, AgentPath, "tail", LedgerPath)
	if err != nil {
		return history.Event{}, fmt.Errorf("read ledger: %w", err)
	}
	for line := range strings.Lines(out) {
		var e history.Event
		if json.Unmarshal([]byte(line), &e) != nil || e.Observer == nil {
			continue
		}
		if e.Observer.Name == "mounts" && e.Observer.State == history.ObserverOn {
			return e, nil
		}
	}
	return history.Event{}, fmt.Errorf(
		"read ledger of node %q: unit %s is up, and %q does not say that the ledger is on (%d bytes)",
		node.Name(), UnitName, LedgerPath, len(out))
}

// ledgerLog returns the last log lines of the unit, as an error to be joined to why, if a command on the node failed.
// It returns nil if the node could not be reached.
func ledgerLog(ctx context.Context, node clusters.Node, why error) error {
	var exit *clusters.ExitError
	if !errors.As(why, &exit) {
		return nil
	}
	out, err := clusters.Run(ctx, node, "journalctl", "--no-pager", "--lines=5", "--output=cat", "--unit="+UnitName)
	if err != nil || strings.TrimSpace(out) == "" {
		return nil //nolint:nilerr // The log only adds to why.
	}
	return fmt.Errorf("unit %s said last: %s", UnitName, strings.TrimSpace(out))
}

// Where things are on a node. The ledger is below /var, which outlives a reboot of a kind node; /run and /tmp do not.
const (
	AgentPath  = "/usr/local/bin/seatrial-agent"
	LedgerPath = "/var/lib/seatrial/ledger/ledger.jsonl"
	UnitName   = "seatrial-ledger.service"
	unitPath   = "/etc/systemd/system/" + UnitName
)

// unitFile returns the unit that keeps the ledger.
//
// It starts before the runtime and the kubelet. Without the default dependencies it does not wait for basic.target and
// does not conflict with shutdown.target, so that a shutdown does not stop it. systemd spares it in its last round of
// signals too, because its name begins with "@" (systemd's "Storage Daemons for the Root File System"). So it sees the
// last unmount and the end of the last process of a boot, and ends with PID 1. It runs in the node's own mount
// namespace, so no sandboxing option may be set.
func unitFile(node string) (string, error) {
	// Many characters would have a meaning in a unit file.
	if wrong := validation.IsDNS1123Subdomain(node); len(wrong) > 0 {
		return "", fmt.Errorf("write unit %s: node name %q: %s", UnitName, node, strings.Join(wrong, "; "))
	}
	return `[Unit]
Description=Ledger of the mounts and processes of this node
DefaultDependencies=no
After=local-fs.target
Before=containerd.service kubelet.service
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart=@` + AgentPath + ` @seatrial-agent ledger --node ` + node + ` --file ` + LedgerPath + `
Restart=always
RestartSec=100ms
TimeoutStartSec=30s
TimeoutStopSec=5s

[Install]
WantedBy=multi-user.target
`, nil
}
