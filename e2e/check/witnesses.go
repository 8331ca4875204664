package check

import (
	"fmt"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// witnesses returns the readings of witness files, in order. It demands the one after the clients had stopped, of each
// instance that the plan ends with: an earlier one tells nothing of what came after it.
func (r *ruling) witnesses() []*history.Event {
	var reads []*history.Event
	read := map[string]bool{}
	for _, e := range r.world.Of(history.KindWitness) {
		if w := e.Witness; w.Error != "" {
			r.unknown("the witness %q in the volume of %s could not be read: %s", w.Label, w.Instance, w.Error)
			continue
		}
		read[e.Witness.Instance] = read[e.Witness.Instance] || e.Witness.Label == history.FinalRead
		reads = append(reads, e)
	}
	for _, name := range r.trial.Instances(r.trial.Finally()) {
		if !read[name] {
			r.unknown("the witness in the volume of %s was never read at the end", name)
		}
	}
	return reads
}

// leavesWitness reports whether writers leave a witness file in each volume: they do beside databases on shared disks.
func leavesWitness(p plan.Plan) bool { return onSharedDisk(p) && hasData(p) }

// line names one entry, as findings print it.
func line(e history.WitnessEntry) string {
	return fmt.Sprintf("entry %d of start %s on node %s", e.Seq, e.Start, e.Node)
}

// Witness judges the witness file of each volume by itself. The entries of one writer are contiguous, numbered from 1
// without a gap, and whole; those of the next begin after that writer's last. Anything else proves two writers at once,
// or a volume that lost data, even if no observer was watching.
func Witness() Check {
	return Check{
		Name:    "witness",
		When:    Continuous,
		Promise: "Each volume was written by one writer at a time.",
		Source: "Seatrial's design: entries that are mixed or torn are proof of two writers, even where the ledger " +
			"was blind; the writer's clock is the boot clock, which all nodes of one kernel share",
		Unit:    "entries of writers in volumes",
		Applies: leavesWitness,
		Lacks:   ofOwn(noWitness),
		judge:   judgeWitness,
	}
}

func judgeWitness(r *ruling) {
	judged := map[string]int{}
	for _, e := range r.witnesses() {
		w := e.Witness
		if o, ok := r.onTwoNodes(w.PV); ok {
			r.unknown("volume %s was mounted on %s and on %s at once, from %s on: each kernel keeps its own copy of "+
				"the file system, so what one writer left may have been overwritten, and the file does not tell of it",
				w.PV, o.A.Node, o.B.Node, r.clock(o.Span.NotBefore))
		}
		if len(w.Entries) == 0 {
			r.unknown("the witness %q in the volume of %s has no entry: nothing wrote to it", w.Label, w.Instance)
		}
		judged[w.PV] = max(judged[w.PV], len(w.Entries))
		r.judgeEntries(e)
	}
	for _, n := range judged {
		r.evidence += n
	}
}

// start is one start of a writer, reconstructed from its entries.
type start struct {
	name        string
	seq         int64
	first, last history.Time
}

func (r *ruling) judgeEntries(e *history.Event) {
	w := e.Witness
	blame := func(kind, format string, args ...any) { // The first violation of a kind in a volume.
		if r.first(w.PV, kind) {
			r.witnessed(e, nil, "The witness file of volume %s (%s) %s.", w.PV, w.Instance, fmt.Sprintf(format,
				args...))
		}
	}
	if w.Torn > 0 {
		blame("torn", "has %d torn lines before its last one", w.Torn)
	}
	byName := map[string]*start{}
	var starts []*start // Sorted by their first entries in the file.
	for i, entry := range w.Entries {
		st := byName[entry.Start]
		if st == nil {
			st = &start{name: entry.Start, first: entry.At, last: entry.At}
			byName[entry.Start] = st
			starts = append(starts, st)
		} else if w.Entries[i-1].Start != entry.Start {
			blame("mixed", "was written by two in turns: %s comes after %s", line(entry), line(w.Entries[i-1]))
		}
		if entry.Seq != st.seq+1 {
			blame("sequence", "has a line too few or too many: %s comes where entry %d of that start belongs",
				line(entry), st.seq+1)
		}
		st.seq, st.first, st.last = entry.Seq, min(st.first, entry.At), max(st.last, entry.At)
	}
	for i, b := range starts {
		for _, a := range starts[:i] {
			if a.last > b.first {
				blame("overlap", "was written by two at once: start %s made its first entry %s before start %s made "+
					"its last", b.name, a.last.Sub(b.first), a.name)
			}
		}
	}
}

// onTwoNodes returns the first certain overlap of two nodes' mounts of a volume; mounts of pulled disks do not count.
func (r *ruling) onTwoNodes(pv string) (o world.Overlap[*world.Mount], ok bool) {
	v := r.world.Volumes().ByName[pv]
	if v == nil || v.PV.ManyNodes() {
		return o, false
	}
	all := world.CertainOverlaps(v.Reaching(r.world.Pulls()),
		func(a, b *world.Mount) bool { return a.Node != b.Node })
	if len(all) > 0 {
		o = all[0]
	}
	return o, len(all) > 0
}

// witnessed adds a violation that a reading proves.
func (r *ruling) witnessed(e *history.Event, more []int64, format string, args ...any) {
	r.violation(Finding{Subject: "volume " + e.Witness.PV, Node: e.Witness.Node, Span: e.Span,
		Events: append(more, e.ID), Faults: r.trial.FaultsUntil(e.Span.NotAfter)}, format, args...)
}
