package undo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
)

// orderSchema is the version of an order's format.
const orderSchema = 1

// The ends of the names of an order, and of the file that keeps what its process says.
const (
	orderExt = ".order"
	logExt   = ".log"
)

// Order says which node is brought back, when, and for whom.
type Order struct {
	Schema   int          `json:"schema"`
	Run      string       `json:"run"`
	Step     int          `json:"step"`
	Engine   string       `json:"engine"` // Name or path of the container engine's client.
	Cluster  string       `json:"cluster"`
	Node     string       `json:"node"`
	Deadline history.Time `json:"deadline"` // On the boot clock of this machine.
}

// Owner returns whose order it is.
func (o Order) Owner() Owner { return Owner{Run: o.Run, Step: o.Step} }

// name is the order's name: of its owner and the node.
func name(owner Owner, node string) string { return owner.Name() + "@" + node }

// check returns an error for an order that cannot be carried out, or whose file would be somewhere else.
func (o Order) check() error {
	switch {
	case o.Schema != orderSchema:
		return fmt.Errorf("schema is %d; this program reads %d", o.Schema, orderSchema)
	case o.Node == "" || strings.ContainsAny(o.Node, "/@\x00"):
		return fmt.Errorf("node is %q; use its name", o.Node)
	case o.Cluster == "" || o.Engine == "":
		return fmt.Errorf("cluster is %q, engine %q; set both", o.Cluster, o.Engine)
	case o.Deadline <= 0:
		return fmt.Errorf("deadline is %s; use more than 0s", o.Deadline)
	}
	return o.Owner().Check()
}

// write puts the order into dir, at once, and returns its path. What was there under its name is replaced.
func (o Order) write(dir string) (path string, err error) {
	if err := o.check(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	data, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(dir, ".order-*")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, name(o.Owner(), o.Node)+orderExt)
	_, err = file.Write(append(data, '\n'))
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return path, nil
}

// maxOrder is more than any order takes.
const maxOrder = 64 << 10

// decodeOrder reads an order.
func decodeOrder(data []byte) (Order, error) {
	var o Order
	if len(data) > maxOrder {
		return o, fmt.Errorf("it is %d bytes long", len(data))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return o, fmt.Errorf("decode it: %w", err)
	}
	return o, o.check()
}

// list returns the paths of the orders in dir; none when there is no such directory.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list what is armed beside the clusters: %w", err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), orderExt) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(out)
	return out, nil
}

// ownerOf returns whose order it is by the name of its file, and whether that is one of ours.
func ownerOf(path string) (Owner, bool) {
	owner, _, ok := strings.Cut(filepath.Base(path), "@")
	if !ok {
		return Owner{}, false
	}
	return FromName(owner)
}

// lock takes the lock on an open order. It returns false when somebody else has it. It goes with the file.
func lock(file *os.File) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return true, nil
}

// there reports whether an open order is still the one at its path.
func there(file *os.File) (bool, error) {
	open, err := file.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(file.Name())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(open, now), err
}

// left returns how long it is until the deadline.
func (o Order) left(now history.Time) time.Duration { return o.Deadline.Sub(now) }
