// Package lock lets one harness at a time use a cluster: two that hurt it beside each other would each find the
// other's faults, and neither could say what came of its own.
package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/clusters/durable"
)

// Holder is a harness that uses a cluster.
type Holder struct {
	Command string    `json:"command"` // Its command line.
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Boot    string    `json:"boot"` // The kernel's id of the host's boot: a pid says nothing after another one.
	Since   time.Time `json:"since"`
}

// String names the harness, so that a person can find it.
func (h Holder) String() string {
	if h.PID == 0 {
		return "another harness"
	}
	since := h.Since.UTC().Format(time.RFC3339)
	return fmt.Sprintf("process %d on host %q since %s: %s", h.PID, h.Host, since, h.Command)
}

// TakenError is the error of a cluster that another harness uses.
type TakenError struct {
	Cluster string
	Holder  Holder
}

// Error names the harness and says what can be done.
func (e *TakenError) Error() string {
	return fmt.Sprintf("cluster %q is used by %s; wait for its end, or use a cluster of another name",
		e.Cluster, e.Holder)
}

// Self is this harness.
func Self(command []string) Holder {
	h := Holder{Command: strings.Join(command, " "), PID: os.Getpid(), Since: time.Now(), Boot: bootID()}
	h.Host, _ = os.Hostname() // Without a name it is told by its boot alone.
	return h
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// alive reports whether the process may still be there: of one on another host, nothing is known here.
func (h Holder) alive() bool {
	if h.Boot == "" || h.Boot != bootID() || h.PID <= 0 {
		return true
	}
	_, err := os.Stat(fmt.Sprintf("/proc/%d", h.PID))
	return err == nil
}

// Lock is a cluster that this harness uses. It ends with the process, at the latest.
type Lock struct {
	cluster string
	self    Holder
	log     *slog.Logger
	file    *os.File

	mu   sync.Mutex
	kube kubernetes.Interface // Set when the Lease is ours.
	stop func()
}

// Dir is where the locks of this host are, one file for each name of a cluster.
func Dir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the directory of locks: %w", err)
	}
	return filepath.Join(cache, "seatrial", "locks"), nil
}

// Take takes a cluster by its name, whether there is one yet or not, against all others on this host. It does not wait:
// a cluster that is used is a *TakenError. A lock whose process has ended is nobody's, however it ended.
func Take(dir, cluster string, self Holder, log *slog.Logger) (*Lock, error) {
	if filepath.Base(cluster) != cluster || cluster == "." || cluster == ".." {
		return nil, fmt.Errorf("take cluster %q: its name is no name of a file", cluster)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("take cluster %q: %w", cluster, err)
	}
	file, err := os.OpenFile(lockPath(dir, cluster), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("take cluster %q: %w", cluster, err)
	}
	err = durable.Flock(file, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &TakenError{Cluster: cluster, Holder: holderIn(file)}
	}
	if err == nil {
		err = write(file, self)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("take cluster %q: %w", cluster, err), file.Close())
	}
	return &Lock{cluster: cluster, self: self, log: log, file: file, stop: func() {}}, nil
}

func lockPath(dir, cluster string) string { return filepath.Join(dir, cluster+".lock") }

// write keeps who holds the lock. The file is never removed: one that waits for a name that is gone holds nothing.
func write(file *os.File, self Holder) error {
	data, err := json.Marshal(self)
	if err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err = file.WriteAt(append(data, '\n'), 0)
	return err
}

// holderIn returns who holds a lock. One that was taken a moment ago may not say so yet.
func holderIn(file io.ReaderAt) Holder {
	var h Holder
	data, err := io.ReadAll(io.NewSectionReader(file, 0, 64<<10))
	if err != nil || json.Unmarshal(data, &h) != nil {
		return Holder{}
	}
	return h
}

// Used returns who uses a cluster on this host; ok is false when nobody does.
func Used(dir, cluster string) (h Holder, ok bool, err error) {
	file, err := os.Open(lockPath(dir, cluster))
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("look who uses cluster %q: %w", cluster, err)
	}
	defer file.Close() //nolint:errcheck // It was only read.
	err = durable.Flock(file, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return holderIn(file), true, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("look who uses cluster %q: %w", cluster, err)
	}
	return Holder{}, false, nil
}

// Release gives the cluster back, and the Lease on it with a bound of its own: its API server may be gone. It may be
// called again, and of a nil Lock.
func (b *Lock) Release(ctx context.Context) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop()
	b.stop = func() {}
	err := b.giveBack(ctx)
	if b.file == nil {
		return err
	}
	err = errors.Join(err, b.file.Close()) // The lock goes with it.
	b.file = nil
	return err
}
