package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// ResidueAudit judges what a trial leaves behind: each node, and the objects of the API, were looked over for the
// things that a fault can leave, before anything was hurt and after everything was healed and had settled. What is
// there then and was not there before is residue, whoever left it. What was there before is not the trial's; of what
// is gone since, the manifests of static pods alone are known to belong there, whoever took them.
//
// Which things are looked at, and what of them comes and goes by itself and is left out, is said in
// chaos/nodeagent/leaks. A run of a harness that did not look, before there was this check, is left as it was judged.
func ResidueAudit() Check {
	return Check{
		Name:    "residue-audit",
		Promise: "Every fault is gone without a trace when the trial is over.",
		Source: "Seatrial's design: heal works by owner mark and leaves nothing; reports of rules and frozen " +
			"processes that outlived their experiment",
		Applies: audited,
		Judge:   judgeResidueAudit,
	}
}

// audited reports that the harness said in its plan that it would look, or that it has. Where there is no plan every
// check applies.
func audited(h *world.World) bool {
	if s, err := h.Trial(); err != nil || s.Plan.Audit {
		return true
	}
	return slices.ContainsFunc(h.Events, func(e history.Event) bool { return e.Kind == history.KindResidue })
}

// looks are the last look before and the last after at one place.
type looks struct {
	place         string // "node worker", "the API".
	node          string
	before, after *history.Event
}

func judgeResidueAudit(h *world.World) Result {
	r := newRuling("places looked over before and after")
	s, err := h.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	places := readLooks(h)
	if len(places) == 0 {
		r.unknown("the trial was never looked over for residue")
	}
	for _, p := range places {
		if p.whole(r) {
			r.evidence++
			p.judge(s, r)
			p.judgeTaken(s, r)
		}
	}
	if len(places) > 0 && places[0].node != "" {
		r.unknown("the objects of the API were never looked over for residue")
	}
	for _, name := range nodesOf(h) {
		if !slices.ContainsFunc(places, func(p *looks) bool { return p.node == name }) {
			r.unknown("node %s was never looked over for residue", name)
		}
	}
	return r.result()
}

// readLooks returns the places that were looked at, the API first, and then the nodes by their names.
func readLooks(h *world.World) []*looks {
	var all []*looks
	for _, e := range h.Of(history.KindResidue) {
		k := slices.IndexFunc(all, func(p *looks) bool { return p.node == e.Residue.Node })
		if k < 0 {
			k = len(all)
			all = append(all, &looks{place: placeName(e.Residue.Node), node: e.Residue.Node})
		}
		switch e.Residue.When {
		case history.Before:
			all[k].before = e
		case history.After:
			all[k].after = e
		}
	}
	slices.SortFunc(all, func(a, b *looks) int { return strings.Compare(a.node, b.node) })
	return all
}

func placeName(node string) string {
	if node == "" {
		return "the API"
	}
	return "node " + node
}

func (p *looks) where() string {
	if p.node == "" {
		return "in the API"
	}
	return "on " + p.place
}

// nodesOf returns the nodes on which the mount ledger was kept.
func nodesOf(h *world.World) []string {
	var names []string
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind == history.KindObserver && e.Observer != nil && e.Observer.Name == "mounts" &&
			e.Observer.Node != "" && !slices.Contains(names, e.Observer.Node) {
			names = append(names, e.Observer.Node)
		}
	}
	return names
}

// whole reports that there are two looks to compare, and says what they lack.
func (p *looks) whole(r *ruling) bool {
	whole := true
	for _, l := range []struct {
		when  string
		event *history.Event
	}{{"before anything was hurt", p.before}, {"after the trial", p.after}} {
		switch {
		case l.event == nil:
			r.unknown("%s was not looked over for residue %s", p.place, l.when)
			whole = false
		case l.event.Residue.Error != "":
			r.unknown("%s could not be looked over for residue %s: %s", p.place, l.when, l.event.Residue.Error)
			whole = false
		default:
			for _, b := range l.event.Residue.Blind {
				r.unknown("on %s no %s could be looked for %s: %s", p.place, b.Class, l.when, b.Why)
			}
		}
	}
	if whole && p.after.Span.NotBefore < p.before.Span.NotAfter {
		r.unknown("%s was looked over for residue in the wrong order", p.place)
		whole = false
	}
	return whole
}

// judge tells of everything that is left at one place. A class that nobody could look for before is not held against
// the trial: what is there may have been there.
func (p *looks) judge(s *world.Trial, r *ruling) {
	before, after := p.before.Residue, p.after.Residue
	for _, t := range history.Left(before.Things, after.Things) {
		if slices.ContainsFunc(before.Blind, func(b history.Blind) bool { return b.Class == t.Class }) {
			continue
		}
		owner, faults := s.OwnerOf(t, after.Run)
		if faults == nil {
			faults = s.FaultsUntil(p.after.Span.NotAfter)
		}
		r.breach(Finding{
			Promise: ResidueAudit().Promise, Subject: t.String(), Node: p.node, Span: p.after.Span, Faults: faults,
			Sentence: fmt.Sprintf("The %s is there after the trial, %s, and was not there before; %s.", t, p.where(),
				owner),
			Events: []int64{p.before.ID, p.after.ID},
		})
	}
}

// manifests is where the kubelet of a node of the control plane takes static pods from.
const manifests = "/etc/kubernetes/manifests/"

// judgeTaken tells of every manifest that was there before and is there in no form any more: a component of the control
// plane that was taken away for a time, and not given back.
func (p *looks) judgeTaken(s *world.Trial, r *ruling) {
	before, after := p.before.Residue, p.after.Residue
	files := func(b history.Blind) bool { return b.Class == history.ThingFile }
	if slices.ContainsFunc(after.Blind, files) {
		return
	}
	for _, t := range before.Things {
		if t.Class != history.ThingFile || !strings.HasPrefix(t.Name, manifests) || slices.ContainsFunc(after.Things,
			func(o history.Thing) bool { return o.Class == t.Class && o.Name == t.Name }) {
			continue
		}
		r.breach(Finding{
			Promise: ResidueAudit().Promise, Subject: t.String(), Node: p.node, Span: p.after.Span,
			Faults: s.FaultsUntil(p.after.Span.NotAfter),
			Sentence: fmt.Sprintf("The %s was there before the trial, %s, and is not there after it.", t,
				p.where()),
			Events: []int64{p.before.ID, p.after.ID},
		})
	}
}
