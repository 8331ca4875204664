package history

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
