package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Workload is what is under test and how it is used.
type Workload struct {
	Name        string   `json:"name"`        // In the list of workloads, for example "ledger".
	StatefulSet string   `json:"statefulSet"` // Name of the StatefulSet, for example "mysql".
	Replicas    int      `json:"replicas"`
	FileSystem  string   `json:"fileSystem"` // "ext4" or "xfs": the file system of every volume.
	VolumeMiB   int      `json:"volumeMiB"`
	Clients     int      `json:"clients"`  // Writing clients per instance.
	Interval    Duration `json:"interval"` // A client's pause between two operations.
	// Transactions is how many more clients of each instance carry out transactions on lists, at all isolation levels.
	Transactions int `json:"transactions,omitempty"`
	// Registers is how many more write and read single numbers.
	Registers int `json:"registers,omitempty"`
	// Transfers is how many more move money between accounts, at all isolation levels, and read all accounts at those
	// that promise a snapshot. Of a group, half of them only read, from each instance in turn.
	Transfers int  `json:"transfers,omitempty"`
	QuietRows int  `json:"quietRows"`        // Rows of the table that is not written to after set-up.
	Silent    bool `json:"silent,omitempty"` // Clients are given an address without a listener (self-test).
	// Storage is what the volumes are: StorageLocal (also when empty) or StorageSharedDisk.
	Storage string `json:"storage,omitempty"`
	// Fencing is what a shared disk does about a second node: "none", "single" or "evict"; or "unattached", which
	// attaches no disk to any node, as file storage does.
	Fencing string `json:"fencing,omitempty"`
	// Attacher is who attaches a shared disk to its node: the attach/detach controller (when empty), or "kubelet", the
	// node's kubelet itself, through FlexVolume. The workers' kubelets are restarted for it. One volume for each
	// replica is made before the trial; none is made later.
	Attacher string `json:"attacher,omitempty"`
	// Zones is how many zones the workers are in, in turn by name; a shared disk can be used only in the zone that it
	// was made in. 0 is one.
	Zones int `json:"zones,omitempty"`
	// Binding is when a claim is given a local volume: BindingLate (also when empty) or BindingImmediate
	// (volumeBindingMode of the StorageClass).
	Binding string `json:"binding,omitempty"`
	// LocalVolumes are the sizes in MiB of each worker's local volumes, in the order of the workers' names. Without it,
	// each worker has one of VolumeMiB for every replica, and one of twice that size.
	LocalVolumes [][]int `json:"localVolumes,omitempty"`
	// Packed puts all pods on one node where that is possible, so that one fault of a node concerns them all.
	Packed bool `json:"packed,omitempty"`
	// Pinned keeps all pods on the first worker, by name: they come back where they were.
	Pinned bool `json:"pinned,omitempty"`
	// FlushLogAtTrxCommit is when the database writes its log and syncs it: 1 (also when left out) at every commit, 2
	// writes at every commit and syncs once a second, 0 does both once a second (innodb_flush_log_at_trx_commit).
	FlushLogAtTrxCommit *int `json:"flushLogAtTrxCommit,omitempty"`
	// SyncBinlog is after how many commits the database syncs its binary log: 1 (also when left out), or 0, which
	// leaves it to the kernel (sync_binlog).
	SyncBinlog *int `json:"syncBinlog,omitempty"`
	// Parallel makes and ends pods without waiting for each other (podManagementPolicy).
	Parallel bool `json:"parallel,omitempty"`
	// PreStop is how long the kubelet waits before it tells the database of a deleted pod to stop (lifecycle.preStop,
	// KEP-3960).
	PreStop Duration `json:"preStop,omitempty"`
	// EvictAfter is how long a pod stays on a node that is not Ready or unreachable before it is evicted
	// (tolerationSeconds); without it the API server gives it 5 minutes.
	EvictAfter Duration `json:"evictAfter,omitempty"`
	// Light has containers that do nothing in place of databases: there are volumes, and no data and no clients.
	Light bool `json:"light,omitempty"`
	// Replicated makes every database but the first a copy of it, brought up to date by GTID; the clients write to the
	// first alone.
	Replicated bool `json:"replicated,omitempty"`
	// Topology is how the databases belong together: TopologySingle (also when empty), or one group, whose rows are the
	// group's. The clients follow its writer; with TopologyMulti they are spread over its writers.
	Topology string `json:"topology,omitempty"`
	// ManualFailover leaves a primary in its place that does not answer; otherwise a replica is promoted where that
	// loses nothing that was promised.
	ManualFailover bool `json:"manualFailover,omitempty"`
	// UpdateStrategy is the StatefulSet's: StrategyRolling (also when empty), StrategyOnDelete or StrategyRecreate.
	UpdateStrategy string `json:"updateStrategy,omitempty"`
	// Partition is how many pods, from the lowest ordinal on, a rolling update leaves alone.
	Partition int `json:"partition,omitempty"`
	// MaxUnavailable is how many pods a rolling update may have unavailable at once (KEP-961); 0 leaves it out.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
	// MinAvailable is how many pods evictions must leave available, the minAvailable of a PodDisruptionBudget; without
	// it there is no budget.
	MinAvailable int `json:"minAvailable,omitempty"`
	// MinReadySeconds is for how long a pod must be Ready to count as available (KEP-2599).
	MinReadySeconds int `json:"minReadySeconds,omitempty"`
	// Start is the ordinal of the first pod (KEP-3335).
	Start int `json:"start,omitempty"`
	// WhenDeleted and WhenScaled say what becomes of claims when the StatefulSet is deleted and when it is scaled down
	// (KEP-1847): PolicyRetain (also when empty) or PolicyDelete.
	WhenDeleted string `json:"whenDeleted,omitempty"`
	WhenScaled  string `json:"whenScaled,omitempty"`
	// External is a StatefulSet that is not Seatrial's; its claims say what its volumes are.
	External *External `json:"external,omitempty"`
}

// What volumes can be.
const (
	StorageLocal      = "local"      // A file system of the node's own; the volume cannot move.
	StorageSharedDisk = "shareddisk" // A disk that is attached to the node that needs it.
	StorageCluster    = "cluster"    // Whatever the claims of an external workload say.
)

// FencingUnattached is that of disks that are attached to no node.
const FencingUnattached = "unattached"

// AttacherKubelet is each node's kubelet (enableControllerAttachDetach: false), which attaches no CSI volumes.
const AttacherKubelet = "kubelet"

// Storages returns what volumes can be.
func Storages() []string { return []string{StorageLocal, StorageSharedDisk} }

// How a StatefulSet replaces pods of an old revision, and what becomes of claims that their pods need no more.
const (
	StrategyRolling  = "RollingUpdate"
	StrategyOnDelete = "OnDelete"
	StrategyRecreate = "Recreate" // Since v1.37, behind RecreateGate.
	PolicyRetain     = "Retain"
	PolicyDelete     = "Delete"
)

// RecreateGate is the feature gate of StrategyRecreate, alpha in v1.37.
const RecreateGate = "StatefulSetRecreateStrategy"

// When a claim is given a volume.
const (
	BindingLate      = "WaitForFirstConsumer"
	BindingImmediate = "Immediate"
)

// LightName is the name of the workload that Workload.Light goes with.
const LightName = "light"

// The limits of a workload. They keep a mistyped number from becoming a trial that never ends or floods the machine.
const (
	MaxReplicas        = 64
	MaxClients         = 256 // For each instance.
	MaxRows            = 10_000_000
	MaxVolume          = 1 << 20 // MiB, which is 1 TiB.
	minDatabase        = 200     // MiB: what MySQL makes at its first start takes 140.
	MaxOrdinal         = 1000
	MaxMinReadySeconds = 3600
)

// maxRegisters bounds Registers: what there is to judge may double with each operation that is under way at once.
const maxRegisters = 8

// How the databases of a StatefulSet belong together.
const (
	TopologySingle   = "single"       // Each is a primary of its own.
	TopologyAsync    = "async"        // Replicas follow the primary; a commit waits for none of them.
	TopologySemiSync = "semisync"     // A commit is acknowledged when a replica has received it (lossless, AFTER_SYNC).
	TopologyGroup    = "group-single" // Group replication with a single primary.
	TopologyMulti    = "group-multi"  // Group replication in which every member takes writes.
)

// Topologies returns how the databases can belong together.
func Topologies() []string {
	return []string{TopologyAsync, TopologyGroup, TopologyMulti, TopologySemiSync, TopologySingle}
}

// A group has a majority without any one of its members.
const (
	leastGrouped = 3
	fewGrouped   = "%d: with topology %q the loss of one would leave no majority"
)

// TopologyName returns how the databases belong together.
func (w Workload) TopologyName() string { return cmp.Or(w.Topology, TopologySingle) }

// Grouped reports whether the databases are one group, whose rows belong to no pod.
func (w Workload) Grouped() bool { return w.TopologyName() != TopologySingle }

// Multi reports whether every database of the group takes writes.
func (w Workload) Multi() bool { return w.TopologyName() == TopologyMulti }

// GroupReplication reports whether the databases are a group that decides by itself who takes writes.
func (w Workload) GroupReplication() bool { return w.TopologyName() == TopologyGroup || w.Multi() }

// StorageName returns what the volumes are.
func (w Workload) StorageName() string { return cmp.Or(w.Storage, StorageLocal) }

// Strategy returns how the StatefulSet replaces pods of an old revision.
func (w Workload) Strategy() string { return cmp.Or(w.UpdateStrategy, StrategyRolling) }

// BindingMode returns when claims are given volumes.
func (w Workload) BindingMode() string { return cmp.Or(w.Binding, BindingLate) }

// FlushLog returns FlushLogAtTrxCommit or its default.
func (w Workload) FlushLog() int { return or(w.FlushLogAtTrxCommit, 1) }

// SyncLog returns SyncBinlog or its default.
func (w Workload) SyncLog() int { return or(w.SyncBinlog, 1) }

// Durable reports that every acknowledged commit is on disk.
func (w Workload) Durable() bool { return w.FlushLog() == 1 && w.SyncLog() == 1 }

// or returns what a pointer points to, or the default without one.
func or[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

// leastMiB is how large a volume must be for its file system: mkfs.xfs refuses less than 300 MiB (xfsprogs 5.19).
func (w Workload) leastMiB() int {
	if w.FileSystem == "xfs" {
		return 300
	}
	return 1
}

// together reports that all pods are on one node.
func (w Workload) together() bool { return w.Packed || w.Pinned }

func (w Workload) pod(ordinal int) string { return fmt.Sprintf("%s-%d", w.StatefulSet, ordinal) }

func (v *validator) workload() {
	w := v.work
	v.OneOf("workload.name", "workload", w.Name, v.caps.Workloads...)
	if w.External != nil || w.Name == ExternalName {
		v.externalPlan()
		return
	}
	v.name("workload.statefulSet", w.StatefulSet)
	v.Range("workload.replicas", w.Replicas, 1, MaxReplicas)
	v.OneOf("workload.fileSystem", "file system", w.FileSystem, "ext4", "xfs")
	least := w.leastMiB()
	if !w.Light {
		least = max(least, minDatabase)
	}
	v.Range("workload.volumeMiB", w.VolumeMiB, least, MaxVolume)
	if w.Interval < 0 || w.Interval.D() > time.Minute {
		v.Add("workload.interval", "use 0s to 1m0s", "%s is out of range", w.Interval)
	}
	v.Range("workload.quietRows", w.QuietRows, 0, MaxRows)
	if w.PreStop < 0 || w.PreStop.D() > 10*time.Minute || w.PreStop.D()%time.Second != 0 {
		v.Add("workload.preStop", "use whole seconds, 0s to 10m0s", "%s is out of range", w.PreStop)
	}
	if w.EvictAfter < 0 || w.EvictAfter.D() > time.Hour || w.EvictAfter.D()%time.Second != 0 {
		v.Add("workload.evictAfter", "use whole seconds, 1s to 1h0m0s", "%s is out of range", w.EvictAfter)
	}
	v.light(w)
	v.database(w)
	v.options(w)
	switch {
	case !v.OneOf("workload.storage", "storage", w.StorageName(), Storages()...):
	case w.StorageName() == StorageSharedDisk:
		v.OneOf("workload.fencing", "fencing", w.Fencing, "none", "single", "evict", FencingUnattached)
		if v.plan.Workers > 0 {
			v.Range("workload.zones", w.Zones, 0, v.plan.Workers)
		}
		v.attacher(w)
	case w.Fencing != "":
		v.Add("workload.fencing", "leave it out", "storage %q has no fencing", w.StorageName())
	case w.Attacher != "":
		v.Add("workload.attacher", "leave it out", "storage %q needs no attach", w.StorageName())
	case w.Zones != 0:
		v.Add("workload.zones", "leave it out", "storage %q has no zones", w.StorageName())
	}
	v.local(w)
}

// attacher checks what goes with shared disks that kubelets attach.
func (v *validator) attacher(w Workload) {
	switch {
	case w.Attacher == "" || !v.OneOf("workload.attacher", "attacher", w.Attacher, AttacherKubelet):
	case w.Fencing == FencingUnattached:
		v.Add("workload.attacher", "leave it out", "fencing %q attaches nothing", w.Fencing)
	case w.Zones > 1:
		v.Add("workload.zones", "leave it out", "volumes that kubelets attach are in no zone")
	case w.WhenDeleted == PolicyDelete || w.WhenScaled == PolicyDelete:
		v.Add("workload.attacher", "leave it out", "no volume is made for a second claim")
	}
}

// flexRPCs are the calls that a volume has that its kubelet attaches: the kubelet mounts it for pods by itself.
func flexRPCs() []string {
	return []string{"ControllerPublishVolume", "ControllerUnpublishVolume", "NodeStageVolume", "NodeUnstageVolume"}
}

// attached refuses a step that cannot work with volumes that kubelets attach.
func (v *validator) attached(at string, s Step) {
	if v.work.Attacher != AttacherKubelet {
		return
	}
	switch {
	case s.Upgrade != nil:
		v.Add(at+".do", "leave the step out",
			"an upgrade overwrites the kubelet's configuration, and the controller attaches again")
	case s.Do == ActionDeleteClaim:
		v.Add(at+".do", "leave the step out", "no volume is made for a second claim")
	case s.Await != nil && s.Await.RPC != "" && !slices.Contains(flexRPCs(), s.Await.RPC):
		v.OneOf(at+".await.rpc", "method of a volume that a kubelet attaches", s.Await.RPC, flexRPCs()...)
	case s.Fault != nil:
		f := v.caps.fault(s.Fault.Name)
		rpc, _ := s.Fault.Params["rpc"].(string)
		switch {
		case f == nil:
		case slices.Contains(f.Takes, PartClaim), slices.Contains(f.Takes, PartVolume) && f.Storage != "":
			v.Add(at+".fault.name", "choose another", "fault %q is not for volumes that kubelets attach", f.Name)
		case rpc != "" && !slices.Contains(flexRPCs(), rpc):
			v.OneOf(at+".fault.params.rpc", "method of a volume that a kubelet attaches", rpc, flexRPCs()...)
		}
	}
}

func (v *validator) local(w Workload) {
	v.OneOf("workload.binding", "binding mode", w.BindingMode(), BindingImmediate, BindingLate)
	only := fmt.Sprintf("leave it out, or use workload.storage: %q", StorageLocal)
	switch {
	case w.StorageName() == StorageLocal:
	case w.Binding != "":
		v.Add("workload.binding", only, "is not for storage %q", w.StorageName())
	case w.LocalVolumes != nil:
		v.Add("workload.localVolumes", only, "is not for storage %q", w.StorageName())
	}
	if w.LocalVolumes == nil {
		return
	}
	if n := len(w.LocalVolumes); v.plan.Workers > 0 && n != v.plan.Workers {
		v.Add("workload.localVolumes", "give a list for each worker", "%s of %s", Count(n, "list"),
			Count(v.plan.Workers, "worker"))
	}
	fit := 0
	for i, sizes := range w.LocalVolumes {
		for k, size := range sizes {
			v.Range(fmt.Sprintf("workload.localVolumes[%d][%d]", i, k), size, w.leastMiB(), MaxVolume)
			if size >= w.VolumeMiB {
				fit++
			}
		}
	}
	if fit < w.Replicas {
		v.Add("workload.localVolumes", "give each replica one of workload.volumeMiB", "%s for %s",
			Count(fit, "volume"), Count(w.Replicas, "replica"))
	}
}

func (v *validator) database(w Workload) {
	if w.Light {
		return
	}
	v.Range("workload.clients", w.Clients, 1, MaxClients)
	v.Range("workload.flushLogAtTrxCommit", w.FlushLog(), 0, 2)
	v.Range("workload.syncBinlog", w.SyncLog(), 0, 1)
	if !v.topology("workload.", w) { // What else a database may have depends on it.
		return
	}
	single, lossless := []string{TopologySingle}, []string{TopologyGroup, TopologySemiSync, TopologySingle}
	for _, more := range []struct {
		at      string
		n, most int
		in      []string // Topologies that promise something of it.
	}{
		{"workload.transactions", w.Transactions, MaxClients, lossless},
		{"workload.registers", w.Registers, maxRegisters, single},
		{"workload.transfers", w.Transfers, MaxClients, Topologies()},
	} {
		if more.n == 0 {
			continue
		}
		v.Range(more.at, more.n, 2, more.most) // One has nobody to meet.
		switch {
		case !w.Durable():
			v.Add(more.at, "leave it out", "needs a database that keeps what it acknowledged")
		case w.Replicated:
			v.Add(more.at, "leave it out", "is for databases that are not copies")
		case !slices.Contains(more.in, w.TopologyName()):
			v.Add(more.at, "leave it out", "topology %q promises nothing of it; these do: %s", w.TopologyName(),
				strings.Join(more.in, ", "))
		}
	}
	if top := w.TopologyName(); w.ManualFailover && top != TopologyAsync && top != TopologySemiSync {
		v.Add("workload.manualFailover", "leave it out", "topology %q has no promoter that fails over", top)
	}
	if w.Grouped() && w.Replicated {
		v.Add("workload.replicated", "leave it out", "topology %q has replicas of its own", w.Topology)
	}
	if w.Replicated && w.Replicas < 2 {
		v.Add("workload.replicated", "leave it out, or use workload.replicas: 2", "%d replicas: there is no copy",
			w.Replicas)
	}
}

// topology checks how the databases belong together, and reports whether that is known; at is the path of the fields.
func (v *validator) topology(at string, w Workload) bool {
	known := v.OneOf(at+"topology", "topology", w.TopologyName(), Topologies()...)
	if known && w.Grouped() && 1 <= w.Replicas && w.Replicas < leastGrouped {
		v.Add(at+"replicas", "use 3 or more", fewGrouped, w.Replicas, w.Topology)
	}
	return known
}

// light checks that a light workload has nothing that needs a database.
func (v *validator) light(w Workload) {
	switch {
	case w.Light && w.Name != LightName:
		v.Add("workload.light", fmt.Sprintf("use workload.name: %q, or leave it out", LightName),
			"workload %q has databases", w.Name)
	case !w.Light && w.Name == LightName:
		v.Add("workload.light", "set it", "is missing for workload %q", w.Name)
	}
	if w.Light {
		v.noData("workload", w, "clients", "interval", "transactions", "registers", "transfers", "quietRows", "silent",
			"replicated", "topology", "manualFailover", "flushLogAtTrxCommit", "syncBinlog")
		v.noData("bounds", v.plan.Bounds, "minOps", "minAround")
	}
}

// noData adds an error for each of some fields that is set although there is no data.
func (v *validator) noData(at string, of any, names ...string) {
	set := SetFields(of)
	for _, name := range names {
		if set[name] != nil {
			v.Add(at+"."+name, "leave it out", "is set, and a light workload has no database and no clients")
		}
	}
}

func (v *validator) options(w Workload) {
	v.OneOf("workload.updateStrategy", "strategy", w.Strategy(), StrategyOnDelete, StrategyRecreate, StrategyRolling)
	rolling := fmt.Sprintf("leave it out, or use workload.updateStrategy: %q", StrategyRolling)
	if w.Strategy() != StrategyRolling && w.Partition != 0 {
		v.Add("workload.partition", rolling, "strategy %q has none", w.Strategy())
	}
	if w.Strategy() != StrategyRolling && w.MaxUnavailable != 0 {
		v.Add("workload.maxUnavailable", rolling, "strategy %q has none", w.Strategy())
	}
	v.Range("workload.partition", w.Partition, 0, MaxOrdinal)
	v.Range("workload.maxUnavailable", w.MaxUnavailable, 0, MaxReplicas)
	v.Range("workload.minAvailable", w.MinAvailable, 0, max(w.Replicas, 0))
	v.Range("workload.minReadySeconds", w.MinReadySeconds, 0, MaxMinReadySeconds)
	v.Range("workload.start", w.Start, 0, MaxOrdinal)
	v.OneOf("workload.whenDeleted", "policy", cmp.Or(w.WhenDeleted, PolicyRetain), PolicyDelete, PolicyRetain)
	v.OneOf("workload.whenScaled", "policy", cmp.Or(w.WhenScaled, PolicyRetain), PolicyDelete, PolicyRetain)
}
