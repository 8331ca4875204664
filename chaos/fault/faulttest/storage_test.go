package faulttest_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/undo"
)

// disks are the volumes of a node, as the agent damages them.
type disks struct {
	volumes map[string]*volume // By the name of the PersistentVolume.
}

// volume is the file system of one.
type volume struct {
	shut, full, readOnly bool
	synced, unsynced     string // What there is of the files that tell what a loss of power has lost.
	damage               volfault.Damage
	size                 int64 // Of the only file that there is.
}

// wholeSize is the size of the file while nobody has cut anything off.
const wholeSize = 8 * 16384

// workloadPV is the volume of the workload's pod, on the victim.
const workloadPV = "pv-1"

// volume returns a volume of the node; nil for one that is not there.
func (m *machine) volume(pv string) *volume {
	if m.volumes == nil {
		m.volumes = map[string]*volume{}
		if m.node.Name() == "c-worker" {
			m.volumes[workloadPV] = &volume{synced: volfault.Missing, unsynced: volfault.Missing, size: wholeSize}
		}
	}
	return m.volumes[pv]
}

// remount is what a boot does: what was held until then is over, and what was not synced is gone.
func (w *world) remount(m *machine) {
	if w.root != "" {
		_ = os.RemoveAll(filepath.Join(w.root, m.node.Name(), undo.BootDir))
	}
	maps.DeleteFunc(m.files, func(name, _ string) bool { return strings.HasPrefix(name, "/run/") })
	for _, v := range m.volumes {
		if v.shut {
			v.shut, v.unsynced = false, volfault.Missing
		}
	}
}

// disk carries out a command about volumes, if it is one. The lock is held.
func (w *world) disk(m *machine, argv []string) (out string, exit int, known bool) {
	if !strings.HasPrefix(strings.Join(argv, " "), nodeagent.Path+" damage ") {
		return "", 0, false
	}
	flags, operands := map[string]string{}, argv[3:]
	for len(operands) > 1 && strings.HasPrefix(operands[0], "--") {
		flags[operands[0]], operands = operands[1], operands[2:]
	}
	if argv[2] == "file" {
		v := m.volume(operands[0])
		if v == nil {
			return "", 1, true
		}
		return encode(volfault.FileView{By: mysqldAt, Size: v.size, Page: v.damage.After}), 0, true
	}
	owner, ok := undo.FromName("seatrial-" + flags["--run"] + "-" + flags["--step"])
	if !ok {
		return "", 254, true
	}
	reports := []volfault.Report{}
	for _, pv := range operands {
		if m.volume(pv) == nil && argv[2] == "inflict" {
			return "", 1, true
		}
		if argv[2] == "inflict" {
			w.inflict(m, owner, volfault.Kind(flags["--kind"]), pv)
		}
		r := w.look(m, pv)
		if argv[2] == "inflict" && volfault.Kind(flags["--kind"]).Stays() {
			r.Damage = w.harmed(m.volume(pv), volfault.Kind(flags["--kind"]), flags["--file"])
		}
		reports = append(reports, r)
	}
	if argv[2] == "mend" {
		reports = w.mend(m, owner, operands...)
	}
	return encode(reports), 0, true
}

// inflict leaves the mark and does the harm.
func (w *world) inflict(m *machine, owner undo.Owner, kind volfault.Kind, pv string) {
	v := m.volume(pv)
	place := volfault.NotesDir
	if kind == volfault.Power {
		place = volfault.BootNotesDir
		v.synced, v.unsynced = volfault.Whole, volfault.Whole
	}
	if !kind.Stays() {
		m.files[place+owner.Name()+"/volume-"+pv] = string(kind)
	}
	if w.inert {
		return
	}
	switch kind {
	case volfault.Power, volfault.Gone:
		v.shut = true
	case volfault.Full:
		v.full = true
	case volfault.ReadOnly:
		v.readOnly = true
		m.endContainer()
	}
}

// mysqldAt is who sees the volume.
const mysqldAt = "mysqld, pid 901, at /var/lib/mysql"

// harmed damages the file, and says what the node's program says of it.
func (w *world) harmed(v *volume, kind volfault.Kind, file string) *volfault.Damage {
	d := volfault.Damage{File: file, Offset: wholeSize / 2, Length: wholeSize / 2, Before: "5ea7"}
	if kind == volfault.Flip {
		d = volfault.Damage{File: file, Page: 4, Offset: 4*16384 + 4096, Length: 64, Before: "5ea7", After: "ba11"}
	}
	switch {
	case w.inert && kind == volfault.Flip:
		d.After = d.Before
	case !w.inert && kind == volfault.Truncate:
		v.size = d.Offset
	}
	v.damage = d
	return &d
}

func (w *world) look(m *machine, pv string) volfault.Report {
	r := volfault.Report{PV: pv, At: w.time(time.Now())}
	v := m.volume(pv)
	if v == nil {
		return r
	}
	r.Mounted, r.FileSystem, r.Device, r.Source = true, "ext4", "7:3", "/dev/loop3"
	r.ReadOnly, r.Available = v.readOnly, 1000
	reads, writes := "", ""
	switch {
	case v.shut:
		reads, writes = "EIO", "EIO"
	case v.readOnly:
		writes = "EROFS"
	case v.full:
		writes, r.Available = "ENOSPC", 0
	}
	r.Tries = []volfault.Access{
		{By: mysqldAt, Op: volfault.AccessRead, Error: reads}, {By: mysqldAt, Op: volfault.AccessWrite, Error: writes},
	}
	r.Synced, r.Unsynced = v.synced, v.unsynced
	return r
}

// mend undoes what the notes say, and removes them. The lock is held.
func (w *world) mend(m *machine, owner undo.Owner, pvs ...string) []volfault.Report {
	reports := []volfault.Report{}
	for _, place := range []string{volfault.NotesDir, volfault.BootNotesDir} {
		for _, name := range slices.Sorted(maps.Keys(m.files)) {
			pv, ok := strings.CutPrefix(name, place+owner.Name()+"/volume-")
			if !ok {
				continue
			}
			if m.volume(pv).shut {
				m.endContainer()
			}
			*m.volume(pv) = volume{synced: volfault.Missing, unsynced: volfault.Missing, size: wholeSize}
			delete(m.files, name)
			reports = append(reports, volfault.Report{PV: pv, At: w.time(time.Now()), Undone: "undone"})
		}
	}
	for _, pv := range pvs {
		if v := m.volume(pv); v != nil {
			v.synced, v.unsynced = volfault.Missing, volfault.Missing
		}
	}
	return reports
}
