// Package lock lets one harness at a time use a cluster: two concurrent trials would see each other's faults.
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

// Holder identifies a harness that uses a cluster.
type Holder struct {
	Command string    `json:"command"` // Its command line.
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Boot    string    `json:"boot"` // The kernel's boot id of the host: a pid is void after a reboot.
	Since   time.Time `json:"since"`
}

// String describes the harness so that a person can find it.
func (h Holder) String() string {
	if h.PID == 0 {
		return "another harness"
	}
	since := h.Since.UTC().Format(time.RFC3339)
	return fmt.Sprintf("process %d on host %q since %s: %s", h.PID, h.Host, since, h.Command)
}

// TakenError is the error for a cluster that another harness uses.
type TakenError struct {
	Cluster string
	Holder  Holder
}

// Error names the harness and what can be done.
func (e *TakenError) Error() string {
	return fmt.Sprintf("cluster %q is used by %s; wait for its end, or use a cluster of another name",
		e.Cluster, e.Holder)
}

// Self returns the holder that is this process.
func Self(command []string) Holder {
	h := Holder{Command: strings.Join(command, " "), PID: os.Getpid(), Since: time.Now(), Boot: bootID()}
	h.Host, _ = os.Hostname() // Without a name the boot identifies it.
	return h
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// alive reports whether the process may still run; one on another host always may.
func (h Holder) alive() bool {
	if h.Boot == "" || h.Boot != bootID() || h.PID <= 0 {
		return true
	}
	_, err := os.Stat(fmt.Sprintf("/proc/%d", h.PID))
	return err == nil
}

// Lock is held on a cluster by this process, until its end at the latest.
type Lock struct {
	cluster string
	self    Holder
	log     *slog.Logger
	file    *os.File

	mu   sync.Mutex
	kube kubernetes.Interface // Set when the Lease is ours.
	stop func()
}

// Dir returns the directory of this host's locks, one file for each cluster name.
func Dir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the directory of locks: %w", err)
	}
	return filepath.Join(cache, "seatrial", "locks"), nil
}

// Take locks the name of a cluster, which need not exist yet, against all harnesses on this host. It does not wait: the
// error for a locked name is a *TakenError. The lock of a process that has ended is free.
func Take(dir, cluster string, self Holder, log *slog.Logger) (*Lock, error) {
	if filepath.Base(cluster) != cluster || cluster == "." || cluster == ".." {
		return nil, fmt.Errorf("take cluster %q: its name cannot name a file", cluster)
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

// write stores the holder in the lock file, which is never removed: a lock on a removed file would exclude nobody.
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

// holderIn reads the holder of a lock; it is empty if the lock was taken a moment ago.
func holderIn(file io.ReaderAt) Holder {
	var h Holder
	data, err := io.ReadAll(io.NewSectionReader(file, 0, 64<<10))
	if err != nil || json.Unmarshal(data, &h) != nil {
		return Holder{}
	}
	return h
}

// Used returns who uses a cluster on this host; ok is false if nobody does.
func Used(dir, cluster string) (h Holder, ok bool, err error) {
	file, err := os.Open(lockPath(dir, cluster))
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("find the user of cluster %q: %w", cluster, err)
	}
	defer file.Close() //nolint:errcheck // Only read.
	err = durable.Flock(file, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return holderIn(file), true, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("find the user of cluster %q: %w", cluster, err)
	}
	return Holder{}, false, nil
}

// Release releases the lock and deletes the Lease, with a bound of its own since the API server may be gone. It may be
// called repeatedly and on a nil Lock.
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
