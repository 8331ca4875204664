package nodefacts

import (
	"bytes"
	"context"
	"crypto/sha256"
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

// Script begins a new ledger and prints it, in one command, since each takes 0.3 s. The unit is on standard input. Each
// reload of systemd costs half a second. The ledger says that it is on before its unit is up.
const Script = `agent=$1 sum=$2 file=$3 unit=$4 ledger=$5
echo "$sum  $agent" | sha256sum --check --status 2> /dev/null || exit 77
cat > "$file.new" || exit
if cmp -s "$file.new" "$file"; then rm "$file.new"
else mv -f "$file.new" "$file" && systemctl daemon-reload; fi &&
systemctl stop "$unit" && rm -f "$ledger" && systemctl enable --no-reload --now "$unit" && exec "$agent" tail "$ledger"
end=$?
journalctl --no-pager --lines=5 --output=cat --unit="$unit" >&2
exit $end`

// otherProgram is the exit code of Script if the node has another agent, or none.
const otherProgram = 77

// Install copies the agent at binaryPath to the node unless it is there, begins a new ledger and enables it for every
// later boot. It returns when the ledger is on. It stops a ledger that ran before and removes its file, so that a trial
// never reads the facts of an earlier one.
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
	sum := fmt.Sprintf("%x", sha256.Sum256(binary))
	argv := []string{"sh", "-c", Script, "begin", clusters.AgentPath, sum, unitPath, UnitName, LedgerPath}
	res, err := node.Exec(ctx, clusters.Command{Argv: argv, Stdin: strings.NewReader(unit)})
	var exit *clusters.ExitError
	if errors.As(err, &exit) && exit.ExitCode == otherProgram {
		if done.Copied, err = nodefile.Place(ctx, node, clusters.AgentPath, binary, "0755"); err != nil {
			return done, fmt.Errorf("install agent: %w", err)
		}
		res, err = node.Exec(ctx, clusters.Command{Argv: argv, Stdin: strings.NewReader(unit)})
	}
	if errors.As(err, &exit) { // Without the script's text.
		err = fmt.Errorf("exit code %d: %s", exit.ExitCode, strings.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return done, fmt.Errorf("begin ledger on node %q: %w", node.Name(), err)
	}
	done.On, err = on(node.Name(), res.Stdout)
	return done, err
}

// on finds a ledger's fact that it is on.
func on(node string, ledger []byte) (history.Event, error) {
	for line := range bytes.Lines(ledger) {
		var e history.Event
		if json.Unmarshal(line, &e) != nil || e.Observer == nil {
			continue
		}
		if e.Observer.Name == "mounts" && e.Observer.State == history.ObserverOn {
			return e, nil
		}
	}
	return history.Event{}, fmt.Errorf(
		"read ledger of node %q: unit %s is up, and %q does not say that the ledger is on (%d bytes)",
		node, UnitName, LedgerPath, len(ledger))
}

// Where things are on a node. The ledger is below /var, which outlives a reboot of a kind node; /run and /tmp do not.
const (
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
ExecStart=@` + clusters.AgentPath + ` @seatrial-agent ledger --node ` + node + ` --file ` + LedgerPath + `
Restart=always
RestartSec=100ms
TimeoutStartSec=30s
TimeoutStopSec=5s

[Install]
WantedBy=multi-user.target
`, nil
}
