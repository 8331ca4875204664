package install

import (
	"fmt"
	"regexp"
)

// Where things are on a node. The ledger is below /var, which outlives a reboot of a kind node; /run and /tmp do not.
const (
	AgentPath  = "/usr/local/bin/seatrial-agent"
	LedgerPath = "/var/lib/seatrial/ledger/ledger.jsonl"
	UnitName   = "seatrial-ledger.service"
	unitPath   = "/etc/systemd/system/" + UnitName
)

// nodeName is what Kubernetes allows as a node's name (RFC 1123 subdomain). It goes into a unit file, where much else
// would have a meaning.
var nodeName = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)

// unitFile returns the unit that keeps the ledger.
//
// It is ordered before the runtime and the kubelet. Without the default dependencies it does not wait for
// basic.target, and it is not stopped when the node goes down, since nothing makes it conflict with shutdown.target.
// systemd then spares it in its last round of signals as well, because its name begins with "@" (systemd's "Storage
// Daemons for the Root File System"). So it sees the last unmount and the end of the last process of a boot, and goes
// with PID 1. It runs in the node's own mount namespace, so no sandboxing option may be set.
func unitFile(node string) (string, error) {
	if !nodeName.MatchString(node) {
		return "", fmt.Errorf("write unit %s: node name %q is not a DNS subdomain", UnitName, node)
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
