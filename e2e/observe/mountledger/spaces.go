package mountledger

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// ownNamespace returns the inode of this thread's mount namespace.
func ownNamespace() (uint64, error) {
	// thread-self, because a test's thread may have a mount namespace that its process does not.
	inode, ok := namespaceAt("/proc/thread-self/ns/mnt", make([]byte, 64))
	if !ok {
		return 0, errors.New("this thread's mount namespace cannot be read")
	}
	return inode, nil
}

// namespaces returns the mount namespaces of processes, other than the node's own, by their inodes. It does not read
// the namespace of a process in inOwn, and sets inOwn to the processes in the node's own: most are there and seldom
// leave, and reading each would cost more than all the rest.
func namespaces(own uint64, inOwn map[int]bool) (map[uint64][]int, error) {
	pids, err := probe.PIDs()
	if err != nil {
		return nil, err
	}
	found := map[uint64][]int{}
	buf := make([]byte, 64)
	known := maps.Clone(inOwn)
	clear(inOwn)
	for _, pid := range pids {
		if known[pid] {
			inOwn[pid] = true
			continue
		}
		inode, ok := namespaceAt("/proc/"+strconv.Itoa(pid)+"/ns/mnt", buf)
		if !ok {
			inode, ok = namespaceOfThreads(pid, buf)
		}
		switch {
		case ok && inode == own:
			inOwn[pid] = true
		case ok:
			found[inode] = append(found[inode], pid)
		}
	}
	return found, nil
}

// namespaceOfThreads returns the namespace of a process whose first thread has ended. Another thread may live on, even
// after a kill while it waits for a disk.
func namespaceOfThreads(pid int, buf []byte) (uint64, bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	for _, thread := range readNames(dir) {
		if inode, ok := namespaceAt(dir+thread+"/ns/mnt", buf); ok {
			return inode, true
		}
	}
	return 0, false
}

// namespaceAt reads a link such as "mnt:[4026531841]"; false means that the thread has ended.
func namespaceAt(path string, buf []byte) (uint64, bool) {
	n, err := unix.Readlink(path, buf)
	if err != nil {
		return 0, false
	}
	number, _ := strings.CutPrefix(string(buf[:n]), "mnt:[")
	inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
	return inode, err == nil
}

// systemDevices returns the devices of the node's own file systems. What a container has of them (its log, its
// /etc/hosts) is no volume.
func systemDevices() map[string]bool {
	devices := map[string]bool{}
	for _, path := range []string{
		"/", "/etc/hosts", "/usr", "/var", "/var/lib", "/var/lib/kubelet", "/var/lib/containerd", "/var/log", "/run",
	} {
		var stat unix.Stat_t
		if unix.Stat(path, &stat) == nil {
			devices[deviceName(unix.Major(stat.Dev), unix.Minor(stat.Dev))] = true
		}
	}
	return devices
}

// spaceMounts holds the mounts of one namespace.
type spaceMounts struct {
	id      uint64 // The kernel's unique id of the namespace, 0 until known.
	old     bool   // The kernel has no such ids: the whole table is read each time.
	listed  []uint64
	holding map[uint64]volumeMount // The mounts of volumes, by their ids.
}

// volumeMount is a mount of a volume, with its identity completed.
type volumeMount struct {
	history.Mount
	device string // Of the file system, as stat(2) has it of its files.
}

// read reads the mounts of the namespace of the processes, and reports whether any of a volume changed. The kernel
// never uses the id of a mount again, so the same ids are the same mounts; again also reads whether they are writable.
func (m *spaceMounts) read(pids []int, system map[string]bool, again bool) (bool, error) {
	if m.id == 0 && !m.old {
		id, err := namespaceID(pids[0])
		if errors.Is(err, errGone) {
			return false, err
		}
		m.id, m.old = id, err != nil
	}
	if m.old {
		return m.readTable(pids[0], system)
	}
	ids, err := listMounts(m.id)
	if err != nil {
		return false, err
	}
	again = again && len(m.holding) > 0
	if !again && slices.Equal(ids, m.listed) {
		return false, nil
	}
	stat := newStatter()
	stat.space = m.id
	next := map[uint64]volumeMount{}
	for _, id := range ids {
		_, seen := slices.BinarySearch(m.listed, id)
		old, held := m.holding[id]
		if held && !again {
			next[id] = old
		}
		if seen && !(held && again) {
			continue
		}
		mount, err := stat.stat(id)
		if errors.Is(err, errGone) {
			continue
		}
		if held && err == nil {
			mount.Identity = old.Identity
			next[id] = volumeMount{mount, old.device}
			continue
		}
		if err != nil {
			return false, err
		}
		if err := addVolume(next, id, mount, system); err != nil {
			return false, err
		}
	}
	slices.Sort(ids)
	return m.replace(ids, next), nil
}

// readTable reads the mounts from mountinfo, which every kernel has.
func (m *spaceMounts) readTable(pid int, system map[string]bool) (bool, error) {
	file, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, errGone
	}
	if err != nil {
		return false, err
	}
	lines, err := mountinfo.GetMountsFromReader(file, nil)
	_ = file.Close() // Read only: nothing can be lost.
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESRCH) || err == nil && len(lines) == 0 {
		return false, errGone // The process ends.
	}
	if err != nil {
		return false, fmt.Errorf("read mountinfo: %w", err)
	}
	next := map[uint64]volumeMount{}
	var ids []uint64
	for _, line := range lines {
		id := uint64(line.ID)
		ids = append(ids, id)
		if err := addVolume(next, id, mountOf(line), system); err != nil {
			return false, err
		}
	}
	return m.replace(ids, next), nil
}

// replace replaces the known mounts, and reports whether any of a volume differs.
func (m *spaceMounts) replace(ids []uint64, next map[uint64]volumeMount) bool {
	changed := !maps.Equal(m.holding, next)
	m.listed, m.holding = ids, next
	return changed
}

// addVolume adds a mount if it is one of a volume: a file system on a block device that is not among the node's own.
func addVolume(to map[uint64]volumeMount, id uint64, m history.Mount, system map[string]bool) (err error) {
	device := m.Identity.Device
	if strings.HasPrefix(device, "0:") || system[device] {
		return nil
	}
	if m.Identity, err = identify(m.Identity); err == nil {
		to[id] = volumeMount{m, device}
	}
	return err
}

// volumes returns one mount of each volume by its key: the oldest writable one, or the oldest.
func (m *spaceMounts) volumes() map[string]volumeMount {
	found := map[string]volumeMount{}
	for _, id := range slices.Sorted(maps.Keys(m.holding)) {
		mount := m.holding[id]
		key := mount.Identity.Key()
		if old, ok := found[key]; !ok || old.ReadOnly && !mount.ReadOnly {
			found[key] = mount
		}
	}
	return found
}

// devices returns the keys of the volumes by the devices of their file systems.
func (m *spaceMounts) devices() map[string]string {
	found := map[string]string{}
	for _, mount := range m.holding {
		found[mount.device] = mount.Identity.Key()
	}
	return found
}

// openDescriptors returns the directory of a process's descriptors and their names in it. All threads have the same
// descriptors; the directory of a first thread that has ended is empty.
func openDescriptors(pid int) (dir string, names []string) {
	process := "/proc/" + strconv.Itoa(pid)
	dir = process + "/fd/"
	if names = readNames(dir); len(names) > 0 {
		return dir, names
	}
	for _, thread := range readNames(process + "/task") {
		dir = process + "/task/" + thread + "/fd/"
		if names = readNames(dir); len(names) > 0 {
			return dir, names
		}
	}
	return "", nil
}

// readNames returns the names in a directory of /proc, in no order, and nothing if the process has ended.
func readNames(path string) []string {
	dir, err := os.Open(path)
	if err != nil {
		return nil
	}
	names, err := dir.Readdirnames(-1)
	if closeErr := dir.Close(); err != nil || closeErr != nil {
		return nil
	}
	return names
}

// countOpenForWriting counts, by the keys of volumes, the files that a process has open for writing. A link in
// /proc/PID/fd has the permissions that its descriptor was opened with (proc_pid_fd(5)).
func countOpenForWriting(pid int, devices map[string]string, counts map[string]int) {
	dir, descriptors := openDescriptors(pid)
	for _, name := range descriptors {
		path := dir + name
		var link, file unix.Stat_t
		if unix.Lstat(path, &link) != nil || link.Mode&unix.S_IWUSR == 0 {
			continue
		}
		target := make([]byte, 1) // A file's name begins with a slash; others are "socket:[1]", "pipe:[1]".
		if n, err := unix.Readlink(path, target); err != nil || n < 1 || target[0] != '/' {
			continue
		}
		if unix.Stat(path, &file) != nil || file.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if key, ok := devices[deviceName(unix.Major(file.Dev), unix.Minor(file.Dev))]; ok {
			counts[key]++
		}
	}
}
