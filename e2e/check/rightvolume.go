package check

import (
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// RightVolume judges the witness files in the volumes, as read from within the pods: the identity that was written into
// each volume when it was created, and the entries that writers left there. The identity must be that of the
// PersistentVolume that the pod's claim is bound to, and every reading must find all entries of the one before.
func RightVolume() Check {
	return Check{
		Name:    "right-volume",
		When:    Continuous,
		Promise: "A container never runs on an empty volume or on another's.",
		Source: "Kubernetes documentation, StatefulSet Basics: a pod's claim stays bound to its volume; the identity " +
			"in the volume is Seatrial's own",
		Unit:    "witnesses read",
		Applies: leavesWitness,
		Lacks:   ofOwn(noWitness),
		judge:   judgeRightVolume,
	}
}

func judgeRightVolume(r *ruling) {
	last := map[string]*history.Event{} // By PersistentVolume.
	for _, e := range r.witnesses() {
		w := e.Witness
		pv := r.world.Storage().PVs[w.PV]
		if pv == nil || pv.Handle == "" {
			r.unknown("PersistentVolume %q, which the witness %q of %s was read for, was not seen with a volume handle",
				w.PV, w.Label, w.Instance)
			continue
		}
		r.evidence++
		what, proof := wrongVolume(w, pv, last[w.PV])
		if what != "" && r.first(w.PV) {
			r.witnessed(e, proof, "%s on node %s had volume %s, and %s.", w.Instance, w.Node, w.PV, what)
		}
		last[w.PV] = e
	}
}

// wrongVolume says what is wrong with a reading of a volume, given the one before, "" if nothing; proof is the event of
// that earlier reading if it is needed to see it.
func wrongVolume(w *history.Witness, pv *world.PV, before *history.Event) (what string, proof []int64) {
	wrong := func(volume string) bool { return volume != pv.Handle && volume != pv.Name }
	switch i := slices.IndexFunc(w.Entries, func(e history.WitnessEntry) bool { return wrong(e.Volume) }); {
	case w.Volume == "":
		return "there was no identity in it: it was empty, or not mounted", nil
	case wrong(w.Volume):
		return fmt.Sprintf("the identity in it was that of volume %s", w.Volume), nil
	case i >= 0:
		return fmt.Sprintf("in it was %s, made by a writer that believed itself on volume %q", line(w.Entries[i]),
			w.Entries[i].Volume), nil
	case before == nil:
		return "", nil
	}
	type entry struct {
		start string
		seq   int64
	}
	there := map[entry]bool{}
	for _, e := range w.Entries {
		there[entry{e.Start, e.Seq}] = true
	}
	for _, e := range before.Witness.Entries {
		if !there[entry{e.Start, e.Seq}] {
			return fmt.Sprintf("%s, which an earlier reading (%q) had found in it, was gone", line(e),
				before.Witness.Label), []int64{before.ID}
		}
	}
	return "", nil
}
