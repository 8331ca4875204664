package history

// UpgradePart is one part of the upgrade of a node.
type UpgradePart string

// The parts of the upgrade of a node, in their order. A node of the control plane has no UpgradeNode, a worker neither
// UpgradePlan nor UpgradeApply. A control plane that is taken back has UpgradeEmulate and UpgradeBack, and none of the
// kubelet's.
const (
	UpgradeStock   UpgradePart = "stock"   // Programs and images are brought to the nodes.
	UpgradeKubeadm UpgradePart = "kubeadm" // The program kubeadm is replaced.
	UpgradePlan    UpgradePart = "plan"    // kubeadm upgrade plan.
	UpgradeApply   UpgradePart = "apply"   // kubeadm upgrade apply: etcd, API server, controllers, scheduler, addons.
	UpgradeEmulate UpgradePart = "emulate" // The new API server behaves as one of the version before.
	UpgradeBack    UpgradePart = "back"    // API server, controller manager and scheduler are of the version before.
	UpgradeNode    UpgradePart = "node"    // kubeadm upgrade node: the kubelet's configuration.
	UpgradeDrain   UpgradePart = "drain"   // The node is drained, or cordoned where nothing is to be evicted.
	UpgradeKubelet UpgradePart = "kubelet" // kubelet and kubectl are replaced, and the kubelet is restarted.
	UpgradeReady   UpgradePart = "ready"   // The node is Ready at the new version.
	UpgradeSettled UpgradePart = "settled" // The node is schedulable again, and the workload has settled.
)

// Upgrade is the begin or the end of a part of the upgrade of a node.
type Upgrade struct {
	Step  int         `json:"step"`
	Node  string      `json:"node"`
	Part  UpgradePart `json:"part"`
	To    string      `json:"to"` // The version of Kubernetes, "v1.37.0".
	End   bool        `json:"end,omitempty"`
	Error string      `json:"error,omitempty"`
}

// Done reports whether this is the end of an upgrade that went well.
func (u *Upgrade) Done() bool { return u.Part == UpgradeSettled && u.End && u.Error == "" }

// EtcdData is etcd's data on a node after kubeadm failed to upgrade the control plane, and what kubeadm said of it.
type EtcdData struct {
	Step int    `json:"step"`
	Node string `json:"node"`
	// Said has kubeadm's lines about etcd ("[upgrade/etcd] ...") and the error that it ended with, in their order.
	Said []string `json:"said"`
	// Databases has the SHA-256 of every file member/snap/db below EtcdDir and EtcdBackups, by its path.
	Databases map[string]string `json:"databases"`
	Healthy   bool              `json:"healthy"` // etcd said so on its health endpoint, within a bound.
	Log       string            `json:"log"`     // The last line of etcd's log that is fatal or a panic.
}

// Where a node of the control plane has etcd's data, and the files that hold it. kubeadm makes the backups.
const (
	EtcdDir      = "/var/lib/etcd"
	EtcdBackups  = "/etc/kubernetes/tmp"
	EtcdDatabase = "member/snap/db"
)

// Version is what a component answered when it was asked for its version: it was that at some time in the span.
type Version struct {
	Component string `json:"component"` // ComponentAPIServer.
	Version   string `json:"version"`   // "v1.37.0".
}

// ComponentAPIServer names the API server in a Version.
const ComponentAPIServer = "kube-apiserver"

// Await says that what a step of the plan waited for has come, and how late the harness was: it happened at some time
// in Happened, the harness knew of it at Known, and went on at Acted. A delay that the plan wants lies between Known
// and Acted.
type Await struct {
	Step     int    `json:"step"`
	For      string `json:"for"`             // As the plan has it, for example "mount".
	What     string `json:"what"`            // What was seen, one plain sentence.
	Count    int    `json:"count,omitempty"` // The how manieth time it was, where the plan does not want the first.
	Happened Span   `json:"happened"`
	Known    Time   `json:"known"`
	Acted    Time   `json:"acted"`
}
