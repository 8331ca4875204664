package history

// Pull is a disk taken out of a node by the node's own driver, as a fenced storage does it when a volume is detached:
// the file system is shut down, and then the device has no blocks left. Mounts of it stay in the node's mount table and
// in containers, and every access through them is an I/O error.
//
// Its span begins before the first of the two was done and ends when the last of Tries had come back: before it the
// node had the disk, after it it had not, and in between nobody knows.
type Pull struct {
	Node     string   `json:"node"`
	Boot     string   `json:"boot"` // That node's boot, see Mount.Boot.
	Volume   string   `json:"volume"`
	Identity Identity `json:"identity"` // Of the node's device, and of the file behind it.
	// ShutDown is where the file system was found that was shut down, as the node sees it; empty when the device had
	// none mounted anywhere.
	ShutDown string `json:"shutDown,omitempty"`
	Tries    []Try  `json:"tries,omitempty"`
	Error    string `json:"error,omitempty"` // Why it could not be done, or not be tried.
}

// TryOf is what was tried to be reached.
type TryOf string

// What can be tried.
const (
	TryDevice     TryOf = "device"
	TryFileSystem TryOf = "file system"
)

// EIO is the name of the error of an access to a disk that failed, see errno(3).
const EIO = "EIO"

// Try is one access to a pulled disk, made on the node that it was pulled out of, and what came of it.
type Try struct {
	Of    TryOf  `json:"of"`
	What  string `json:"what"`            // "read of 4096 bytes at 0 with O_DIRECT".
	Bytes int64  `json:"bytes"`           // How many it got.
	Errno string `json:"errno,omitempty"` // The name of the error, "EIO"; empty when there was none.
}

// Proven reports that the pull was done and shown from its victim's side: the device gave nothing, the file system that
// was shut down gave EIO, and nothing that was tried got through.
func (p Pull) Proven() bool {
	if p.Error != "" || p.Identity.Key() == "" || p.Identity.Device == "" {
		return false
	}
	shown := map[TryOf]bool{}
	for _, t := range p.Tries {
		if !t.failed() {
			return false
		}
		shown[t.Of] = true
	}
	return shown[TryDevice] && (p.ShutDown == "" || shown[TryFileSystem])
}

// failed reports that the access was one to a disk that is not there: a device without blocks is at its end at once,
// and a file system that is shut down says so.
func (t Try) failed() bool {
	return t.Bytes == 0 && (t.Errno == EIO || t.Of == TryDevice && t.Errno == "")
}

// String tells the try in words.
func (t Try) String() string {
	switch {
	case t.Errno != "":
		return t.What + " of the " + string(t.Of) + ": " + t.Errno
	case t.failed():
		return t.What + " of the " + string(t.Of) + ": no byte"
	}
	return t.What + " of the " + string(t.Of) + ": it was there"
}
