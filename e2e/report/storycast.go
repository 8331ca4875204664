package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/world"
)

// subject is a volume that a chronicle can tell of, and the name of the pod that has it.
type subject struct {
	*world.VolumeLife
	instance string
}

// subjects are the volumes of pods, in the order of the pods' ordinals.
func subjects(w *world.World) []*subject {
	var all []*subject
	for _, v := range w.Volumes().All {
		if owner := w.Owner(v); owner != "" {
			all = append(all, &subject{v, owner})
		}
	}
	slices.SortStableFunc(all, func(a, b *subject) int {
		return cmp.Or(cmp.Compare(ordinal(a.instance), ordinal(b.instance)), cmp.Compare(a.instance, b.instance))
	})
	return all
}

// has reports whether a mount is of this volume.
func (v *subject) has(m *world.Mount) bool { return slices.Contains(v.Mounts, m) }

// about describes the volume in a few words: its name, access modes and size.
func (v *subject) about() string {
	if v.PV == nil {
		return v.Name
	}
	words := []string{v.Name, strings.Join(v.PV.Modes, ", "), v.PV.Size}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

// ordinal is the number at the end of a pod's name, and large where there is none.
func ordinal(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil || n < 0 {
		return 1 << 30
	}
	return n
}

// in reports whether a finding is about the volume: by the volume's name, or by that of the pod that has it.
func (v *subject) in(f check.Finding) bool {
	for _, word := range strings.Fields(f.Subject) {
		if word == v.Name || word == v.instance || v.Handle != "" && word == v.Handle {
			return true
		}
	}
	return false
}
