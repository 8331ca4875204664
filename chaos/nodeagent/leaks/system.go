package leaks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/linux"
	"github.com/seatrial/seatrial/clusters/loopdev"
)

// comeAndGo returns the directories whose mounts change with pods, containers and services.
func comeAndGo() []string {
	return []string{
		"/dev", "/proc", "/run/containerd", "/run/credentials", "/run/docker", "/run/netns", "/run/user", "/sys",
		"/var/lib/containerd", "/var/lib/docker", "/var/lib/kubelet",
	}
}

// ourDir holds everything that Seatrial keeps on a node; the nodes share sharedDir (clusters.SharedDir).
const (
	ourDir    = "/var/lib/seatrial"
	sharedDir = ourDir + "/shared"
)

func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// mounts reads the mount table of PID 1.
func (n Node) mounts(context.Context) ([]history.Thing, error) {
	table, err := os.ReadFile(filepath.Join(n.Root, "proc/1/mountinfo"))
	if err != nil {
		return nil, err
	}
	mounts, err := linux.Mounts(string(table))
	if err != nil {
		return nil, err
	}
	var all []history.Thing
	for _, m := range mounts {
		if !slices.ContainsFunc(comeAndGo(), func(dir string) bool { return below(m.Mountpoint, dir) }) {
			all = append(all, history.Thing{Name: m.Mountpoint, Is: m.FSType})
		}
	}
	return all, nil
}

// loops lists the loop devices over files of this node.
func loops() ([]history.Thing, error) {
	files := map[string]string{} // By the key of their identity.
	err := filepath.WalkDir(ourDir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case path == sharedDir || entry.IsDir() && strings.Count(path, "/") > 6:
			return fs.SkipDir // Shared disks, and the content of volumes.
		case !entry.Type().IsRegular():
			return nil
		}
		id, err := loopdev.IdentityOf(path)
		if err == nil {
			files[id.Key()] = path
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	devices, err := loopdev.List(func(s loopdev.Status) bool { return files[s.Identity.Key()] != "" })
	if err != nil {
		return nil, err
	}
	var all []history.Thing
	for _, d := range devices {
		all = append(all, named("over %s", files[d.Identity.Key()]))
	}
	return all, nil
}

// processes lists the processes that are stopped by a signal or in a frozen cgroup.
func (n Node) processes(context.Context) ([]history.Thing, error) {
	dirs, err := filepath.Glob(filepath.Join(n.Root, "proc/[0-9]*"))
	if err != nil {
		return nil, err
	}
	frozen := map[string]bool{} // By the content of /proc/PID/cgroup.
	var all []history.Thing
	for _, dir := range dirs {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			continue // It has ended.
		}
		p, err := probe.ParseStat(stat)
		if err != nil {
			return all, fmt.Errorf("read process %s: %w", filepath.Base(dir), err)
		}
		groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil {
			continue
		}
		is, known := frozen[string(groups)]
		if !known {
			is = n.frozen(string(groups))
			frozen[string(groups)] = is
		}
		t := history.Thing{Name: fmt.Sprintf("%d %s", p.PID, p.Name)}
		switch {
		case p.State == 'T':
			t.Is = "stopped"
		case is:
			t.Is = "frozen"
		default:
			continue
		}
		all = append(all, t)
	}
	return all, nil
}

// frozen reports whether one of a process's cgroups is frozen, in cgroup v1 or v2.
func (n Node) frozen(groups string) bool {
	for line := range strings.Lines(groups) { // For example "7:freezer:/kubelet/pod1" and "0::/kubelet/pod1".
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		var file, want string
		switch {
		case slices.Contains(strings.Split(part[1], ","), "freezer"):
			file, want = "sys/fs/cgroup/freezer"+part[2]+"/freezer.state", "FROZEN"
		case part[0] == "0":
			file, want = "sys/fs/cgroup"+part[2]+"/cgroup.events", "frozen 1"
		default:
			continue
		}
		text, err := os.ReadFile(filepath.Join(n.Root, file))
		if err == nil && strings.Contains(string(text), want) {
			return true
		}
	}
	return false
}

// units lists ours, failed ones, transient timers, and the kubelet and containerd if they are not active.
func (n Node) units(ctx context.Context) ([]history.Thing, error) {
	lines, err := n.lines(ctx, "systemctl", "list-units", "--all", "--full", "--plain", "--no-legend", "--no-pager")
	if err != nil {
		return nil, err
	}
	var all []history.Thing
	for _, line := range lines { // For example "kubelet.service loaded active running kubelet: The Kubernetes ...".
		word := strings.Fields(line)
		if len(word) < 4 {
			return all, fmt.Errorf("systemctl list-units: a line is %q", line)
		}
		unit, load, active := word[0], word[1], word[2]
		core := unit == "kubelet.service" || unit == "containerd.service"
		byHand := strings.HasPrefix(unit, "run-") && strings.HasSuffix(unit, ".timer")
		_, noFile := os.Stat(filepath.Join(n.Root, "etc/systemd/system", unit)) // One that has is listed as a file.
		switch {
		case active == "failed":
			all = append(all, history.Thing{Name: unit, Is: active})
		case core && (active != "active" || load != "loaded"):
			all = append(all, history.Thing{Name: unit, Is: load + " " + active})
		case strings.HasPrefix(unit, "seatrial-") && active != "inactive" && noFile != nil, byHand:
			all = append(all, history.Thing{Name: unit})
		}
	}
	return all, nil
}

// files lists armed undos, notes, our files in system directories, drop-ins and manifests.
func (n Node) files(context.Context) ([]history.Thing, error) {
	var all []history.Thing
	for _, pattern := range []string{
		undo.RecordDir + "*", undo.BootDir + "*",
		volfault.NotesDir + "*/*", volfault.BootNotesDir + "*/*",
		ourDir + "/*", "/etc/kubernetes/*seatrial*", "/tmp/*seatrial*",
		"/etc/systemd/system/*seatrial*", "/run/systemd/system/*seatrial*", "/etc/systemd/system/*.d/*.conf",
		"/etc/systemd/system/*.wants/*seatrial*",
		"/run/systemd/system/*.d/*.conf",
	} {
		paths, err := filepath.Glob(filepath.Join(n.Root, pattern))
		if err != nil {
			return all, err
		}
		for _, path := range paths {
			name := n.path(path)
			if !slices.Contains([]string{undo.RecordDir, volfault.NotesDir}, name+"/") { // Both directories stay.
				all = append(all, history.Thing{Name: name})
			}
		}
	}
	manifests, err := filepath.Glob(filepath.Join(n.Root, undo.ManifestDir, "*"))
	if err != nil {
		return all, err
	}
	for _, path := range manifests {
		text, err := os.ReadFile(path)
		if err != nil {
			return all, err
		}
		sum := sha256.Sum256(text)
		all = append(all, history.Thing{Name: n.path(path), Is: "sha256 " + hex.EncodeToString(sum[:])[:16]})
	}
	return all, nil
}

// path returns the node's own path of a file.
func (n Node) path(found string) string {
	rel, err := filepath.Rel(n.Root, found)
	if err != nil {
		return found
	}
	return "/" + rel
}
