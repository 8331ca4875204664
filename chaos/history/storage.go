package history

// CSI is one call of a CSI driver: its begin, and later its end. The two share (Node, Boot, Call); a begin without an
// end was cut off, as by a crash of the driver. The names are those of the CSI specification.
type CSI struct {
	Node    string `json:"node"` // Where the driver's process runs.
	Boot    string `json:"boot"` // That node's boot, see Mount.Boot.
	Call    string `json:"call"` // Unique among the calls of a node's boot.
	RPC     string `json:"rpc"`  // The method's own name, for example "NodeStageVolume".
	End     bool   `json:"end,omitempty"`
	Volume  string `json:"volume,omitempty"`  // The volume handle.
	For     string `json:"for,omitempty"`     // The node that the call is about: its node_id, or where it runs.
	Staging string `json:"staging,omitempty"` // CSI's staging_target_path.
	Target  string `json:"target,omitempty"`  // CSI's target_path, or volume_path.
	// Of an end:
	Code  string `json:"code,omitempty"`  // The gRPC code's name: "OK", "FailedPrecondition".
	Error string `json:"error,omitempty"` // The message beside a code other than OK.
	// Point is the fault point that took part: one of "delay", "fail", "hold", "late", "lie", "unready".
	Point string `json:"point,omitempty"`
	// Attached is, for calls that attach and detach, which nodes the attachment table has the volume on afterwards.
	Attached []string `json:"attached,omitempty"`
}

// Holding is a volume mounted in a mount namespace other than the node's: a container has it, whatever the node's own
// mounts are. (Node, Boot, Namespace, Identity.Key()) is its identity.
type Holding struct {
	Action    ProcessAction `json:"action"` // Present, started or gone.
	Node      string        `json:"node"`
	Boot      string        `json:"boot"`
	Namespace uint64        `json:"namespace"` // Inode of the mount namespace.
	Identity  Identity      `json:"identity"`
	Path      string        `json:"path,omitempty"` // Where, in that namespace.
	ReadOnly  bool          `json:"readOnly,omitempty"`
	PID       int           `json:"pid,omitempty"`     // Its first process, in the node's PID namespace.
	Start     Time          `json:"start,omitempty"`   // When it was started.
	Program   string        `json:"program,omitempty"` // Its name.
	PodUID    string        `json:"podUID,omitempty"`  // From its cgroup path.
	Container string        `json:"container,omitempty"`
	Writing   int           `json:"writing,omitempty"` // Files of the volume open for writing.
}

// VolumeManager is what the volume manager of a kubelet says of the volumes of one plugin, by its metrics
// volume_manager_total_volumes and storage_operation_duration_seconds. It is recorded when it differs from the last.
// With Error the kubelet could not be asked, and the rest is void.
type VolumeManager struct {
	Node string `json:"node"`
	// Plugin is "kubernetes.io/csi:" and a driver, "kubernetes.io/local-volume", or a FlexVolume driver.
	Plugin  string `json:"plugin,omitempty"`
	Desired int    `json:"desired,omitempty"` // How many volumes the pods of the node need.
	Actual  int    `json:"actual,omitempty"`  // How many the kubelet has attached or mounted, as far as it knows.
	Failed  int    `json:"failed,omitempty"`  // Operations that failed since the kubelet started.
	Error   string `json:"error,omitempty"`
}

// Witness is what a volume itself says of who wrote to it: each start of a database on it appends entries for as long
// as it runs. Label says when it was read ("settled"); Error why it could not be, and the rest is then void.
type Witness struct {
	Instance string         `json:"instance"` // The pod that has the volume.
	PodUID   string         `json:"podUID"`
	PV       string         `json:"pv"` // The PersistentVolume that the pod's claim is bound to.
	Node     string         `json:"node"`
	Label    string         `json:"label"`
	Volume   string         `json:"volume,omitempty"` // What its identity file says; empty without one.
	Entries  []WitnessEntry `json:"entries,omitempty"`
	Torn     int            `json:"torn,omitempty"` // Lines, the last excepted, that are no whole entries.
	Error    string         `json:"error,omitempty"`
}

// WitnessEntry is one entry of a witness file.
type WitnessEntry struct {
	Volume string `json:"v"` // What the identity file said to the writer.
	Node   string `json:"n"`
	PodUID string `json:"p"`
	Start  string `json:"b"` // Unique for each start of a writer.
	Seq    int64  `json:"s"` // Counts the entries of a start from 1.
	At     Time   `json:"t"` // The writer's boot clock.
}

// Inspection is what a program that looks for damage said of one table, of one data file, or of the file system of one
// volume. Error is why it could not look; Clean and Messages are void then.
type Inspection struct {
	Tool     string `json:"tool"`               // For example "CHECK TABLE" or "e2fsck": they change nothing.
	Instance string `json:"instance,omitempty"` // Of a table, a log or a file: the pod whose it is.
	Table    string `json:"table,omitempty"`
	File     string `json:"file,omitempty"`  // Of a data file: its path in the volume.
	Pages    int64  `json:"pages,omitempty"` // Of a tablespace: how many pages were read.
	PV       string `json:"pv,omitempty"`    // Of a file system or a file: the PersistentVolume that it is in.
	Node     string `json:"node,omitempty"`  // Where it was looked at, while nobody had it mounted.
	Clean    bool   `json:"clean"`
	// Messages are the tool's own words about what it found, the first MaxMessages of them.
	Messages []string `json:"messages,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// MaxMessages is how many messages of a tool an inspection keeps.
const MaxMessages = 12
