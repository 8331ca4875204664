package volfault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters/linux"
)

// table reads the mounts of a process; 0 is this thread.
func table(pid int) ([]*mountinfo.Info, error) {
	of := "thread-self"
	if pid > 0 {
		of = strconv.Itoa(pid)
	}
	data, err := os.ReadFile(filepath.Join("/proc", of, "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	mounts, err := linux.Mounts(string(data))
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return mounts, nil
}

func device(m *mountinfo.Info) string { return fmt.Sprintf("%d:%d", m.Major, m.Minor) }

// bears reports whether a mount point is one of the volume: its path ends with the volume's name or, of a CSI driver,
// with the name and "mount".
func bears(point, pv string) bool {
	if path.Base(point) == "mount" {
		point = path.Dir(point)
	}
	return path.Base(point) == pv
}

// Find returns a volume as mounted on this node. The error wraps ErrNotMounted if it is not.
func Find(pv string) (Volume, error) {
	mounts, err := table(0)
	if err != nil {
		return Volume{}, err
	}
	i := slices.IndexFunc(mounts, func(m *mountinfo.Info) bool { return m.Major > 0 && bears(m.Mountpoint, pv) })
	if i < 0 {
		return Volume{PV: pv}, fmt.Errorf("find volume %q: %w", pv, ErrNotMounted)
	}
	v := volumeOf(mounts, device(mounts[i]))
	v.PV = pv
	return v, nil
}

// alone returns an error if the volume is a directory of a file system that holds more, such as the node's own or
// other volumes: damage would hit that too. Of a file system that is the volume's, the pod may have a directory.
func (v Volume) alone() error {
	isPart := slices.ContainsFunc(v.Mounts, func(m Mount) bool { return bears(m.Path, v.PV) && m.Root != "/" })
	for _, m := range v.Mounts {
		whole := isPart && m.Root == "/" && !bears(m.Path, v.PV)
		other := strings.Contains(m.Path, "/volumes/") && !strings.Contains(m.Path+"/", "/"+v.PV+"/")
		if whole || other {
			return fmt.Errorf("volume %q has no file system of its own: that of %s is at %q too, and would be damaged"+
				"; use a volume that is a whole disk or partition", v.PV, v.Source, m.Path)
		}
	}
	return nil
}

// volumeOf returns the mounts of a device, if any.
func volumeOf(mounts []*mountinfo.Info, dev string) Volume {
	v := Volume{Device: dev}
	for _, m := range mounts {
		if device(m) != dev {
			continue
		}
		if len(v.Mounts) == 0 {
			v.FileSystem, v.Source, v.Options = m.FSType, m.Source, m.VFSOptions
		}
		v.Mounts = append(v.Mounts, Mount{Path: m.Mountpoint, Root: m.Root})
	}
	return v
}

// user is a pod's process that has the volume mounted, and where it sees it.
type user struct {
	probe.Process
	view
}

// users returns the pods' processes that have the device mounted, sorted by pid.
func users(dev string) ([]user, error) {
	pids, err := probe.PIDs()
	if err != nil {
		return nil, err
	}
	var found []user
	for _, pid := range pids {
		p, alive, err := probe.Read(pid)
		if err != nil {
			return nil, err
		}
		if !alive || p.PodUID == "" {
			continue
		}
		mounts, err := table(pid)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
			continue // It has ended, or is about to.
		}
		if err != nil {
			return nil, err
		}
		if v := volumeOf(mounts, dev); len(v.Mounts) > 0 {
			at := v.Mounts[0].Path
			found = append(found, user{Process: p, view: view{
				path: filepath.Join("/proc", strconv.Itoa(pid), "root", at),
				by:   fmt.Sprintf("%s, pid %d, at %s", p.Name, pid, at),
			}})
		}
	}
	return found, nil
}

// kill sends SIGKILL and returns how many processes it reached.
func kill(all []user) (int, error) {
	n := 0
	for _, u := range all {
		err := unix.Kill(u.PID, unix.SIGKILL)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return n, fmt.Errorf("kill %s, pid %d: %w", u.Name, u.PID, err)
		}
		if err == nil {
			n++
		}
	}
	return n, nil
}

// view is a place from which the file system is seen: its path on the node, and who sees it where (Access.By).
type view struct{ path, by string }

// tries reads and writes there.
func (v view) tries() []Access {
	return []Access{
		{By: v.by, Op: AccessRead, Error: ErrnoName(tryRead(v.path))},
		{By: v.by, Op: AccessWrite, Error: ErrnoName(tryWrite(v.path))},
	}
}

// viewOf returns where the victim sees the volume: in the mount namespace of a pod's process or, if none runs, at the
// kubelet's mount for the pod.
func viewOf(v Volume) (view, error) {
	all, err := users(v.Device)
	if err != nil {
		return view{}, err
	}
	if len(all) > 0 {
		return all[0].view, nil
	}
	if len(v.Mounts) == 0 {
		return view{}, fmt.Errorf("inspect volume %q: %w", v.PV, ErrNotMounted)
	}
	at := v.Mounts[len(v.Mounts)-1].Path
	for _, m := range v.Mounts {
		if strings.Contains(m.Path, "/pods/") {
			at = m.Path
		}
	}
	return view{path: at, by: "the node at " + at}, nil
}
