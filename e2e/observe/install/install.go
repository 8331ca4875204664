package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/nodefile"
)

// Installed says what Install did and found.
type Installed struct {
	Copied bool          // False when the node had the very same binary already.
	SHA256 string        // Of the binary, lower-case hex.
	On     history.Event // The ledger's own word that it sees; its detail says by which method.
}

// Install copies the agent at binaryPath to the node, begins a new ledger there and enables it for every later boot.
// It returns when the ledger says that it sees. A ledger that ran before is stopped and its file removed, so that a
// trial never reads the facts of an earlier one.
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
	sum := sha256.Sum256(binary)
	done.SHA256 = hex.EncodeToString(sum[:])
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

// readOn finds the word of the ledger that it sees. The unit is up only when that is written.
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
		"read ledger of node %q: unit %s is up, and %q does not say that it sees (%d bytes)",
		node.Name(), UnitName, LedgerPath, len(out))
}

// ledgerLog returns what the unit said last, as an error to be joined to why. It asks only when a command on the node
// failed, and not when the node could not be reached.
func ledgerLog(ctx context.Context, node clusters.Node, why error) error {
	var exit *clusters.ExitError
	if !errors.As(why, &exit) {
		return nil
	}
	out, err := clusters.Run(ctx, node, "journalctl", "--no-pager", "--lines=5", "--output=cat", "--unit="+UnitName)
	if err != nil || strings.TrimSpace(out) == "" {
		return nil //nolint:nilerr // It would only add to why.
	}
	return fmt.Errorf("unit %s said last: %s", UnitName, strings.TrimSpace(out))
}
