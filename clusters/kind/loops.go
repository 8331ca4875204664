package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters/loopdev"
)

// releaseBound is how long released loop devices may stay busy: the mounts of a removed container go in the background.
const releaseBound = 15 * time.Second

// loopDevices are those of this machine. They outlive the containers that set them up.
type loopDevices struct {
	sys    string // "/sys/block".
	status func(number int) (loopdev.Status, error)
	detach func(number int) error
}

// gone identifies the loop devices of a deleted cluster.
type gone struct {
	nodes *regexp.Regexp // Matches labels that end in the name of one of its nodes.
	files []string       // The files in the directory that they shared, by the keys of their identities.
}

// goneWith identifies the loop devices of a cluster, given the directories that its nodes shared.
func goneWith(cluster string, shared []string) (gone, error) {
	files, err := filesIn(shared)
	nodes := regexp.MustCompile(`/` + regexp.QuoteMeta(cluster) + `-(control-plane|worker)[0-9]*$`)
	return gone{nodes: nodes, files: files}, err
}

// has reports whether a device was one of the cluster's.
func (g gone) has(s loopdev.Status) bool {
	return slices.Contains(g.files, s.Identity.Key()) || g.nodes != nil && g.nodes.MatchString(s.Label)
}

func hostLoops() loopDevices {
	return loopDevices{sys: "/sys/block", status: loopdev.Of, detach: loopdev.Release}
}

// release frees the loop devices that orphans returns. Only the engine's own machine has any.
func (l loopDevices) release(ctx context.Context, log *slog.Logger, of gone) error {
	left, err := l.orphans(of)
	if err != nil || len(left) == 0 {
		return err
	}
	var errs []error
	for number, file := range left {
		log.Debug("releasing loop device", "number", number, "file", file)
		if err := l.detach(number); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return await.Until(context.WithoutCancel(ctx), "the loop devices of deleted nodes to be free", 100*time.Millisecond,
		releaseBound, func(context.Context) (bool, string, error) {
			left, err := l.orphans(of)
			return len(left) == 0, fmt.Sprintf("still set up: %v", left), err
		})
}

// orphans returns the devices, by number, over a deleted file of ours, and those of a deleted cluster. While a node
// exists, the kernel shows its files as /var/lib/seatrial/...; once its /var is no longer mounted, as /lib/seatrial/...
// followed by " (deleted)". Files that nodes shared may still exist and have a path that says nothing: they are
// identified by inode, and by the label of the device, which holds the node's name.
func (l loopDevices) orphans(of gone) (map[int]string, error) {
	entries, err := filepath.Glob(filepath.Join(l.sys, "loop*", "loop", "backing_file"))
	if err != nil {
		return nil, fmt.Errorf("list loop devices: %w", err)
	}
	out := map[int]string{}
	for _, entry := range entries {
		number, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(filepath.Dir(entry))), "loop"))
		if err != nil {
			continue
		}
		backing, err := l.orphan(number, entry, of)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV) {
			continue // Freed meanwhile.
		}
		if err != nil {
			return nil, fmt.Errorf("list loop devices: %w", err)
		}
		if backing != "" {
			out[number] = backing
		}
	}
	return out, nil
}

// orphan returns the backing file of an orphan, "" for any other device.
func (l loopDevices) orphan(number int, entry string, of gone) (string, error) {
	text, err := os.ReadFile(entry)
	if err != nil {
		return "", err
	}
	backing := strings.TrimSpace(string(text))
	if strings.Contains(backing, "/lib/seatrial/") && strings.HasSuffix(backing, " (deleted)") {
		return backing, nil
	}
	status, err := l.status(number)
	if errors.Is(err, fs.ErrPermission) {
		return "", nil // We cannot have set it up, nor can we free it.
	}
	if err != nil || !of.has(status) {
		return "", err
	}
	return backing, nil
}

// filesIn returns the files in directories, by the keys of their identities. The directories need not exist.
func filesIn(dirs []string) (files []string, err error) {
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			identity, err := loopdev.IdentityOf(path)
			if err == nil {
				files = append(files, identity.Key())
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list files that nodes shared: %w", err)
		}
	}
	return files, nil
}
