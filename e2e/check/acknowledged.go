package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Acknowledged judges the rows of a group: what was acknowledged under a promise must be on the writer in the end.
//
// Only documented promises count. Lossless semi-synchronous replication promises nothing while its source has fallen
// back to asynchronous replication, and asynchronous replication never does: rows that are gone then are counted and
// allowed, but for those before a row that is there, and those that the writer has acknowledged itself, see overtaken.
func Acknowledged() Check {
	return Check{
		Name: "acknowledged",
		When: End,
		Promise: "A row that the group acknowledged under its promise is on the writer in the end, whoever the " +
			"writer was then.",
		Source: "MySQL Reference Manual, Semisynchronous Replication (AFTER_SYNC) and Group Replication (a " +
			"transaction is certified by a majority); asynchronous replication promises nothing",
		Unit:    "acknowledged rows of the group",
		Applies: grouped,
		judge:   judgeAcknowledged,
	}
}

// grouped is the Applies of checks of groups.
func grouped(p plan.Plan) bool { return p.Workload.Grouped() }

func judgeAcknowledged(r *ruling) {
	group := r.finalGroup()
	if group.writer == "" {
		return
	}
	reads := r.world.Reads(history.FinalRead)
	if why := reads[group.writer].Lacks(); why != "" {
		r.unknown("%s, the writer, was not read back whole at the end: %s", group.writer, why)
		return
	}
	allowed, overtaken := 0, r.overtaken(group, reads[group.writer])
	for _, op := range r.world.Operations() {
		e := op.Answer
		if e == nil || e.Op.F != history.OpInsert || e.Op.Stage != history.StageOK {
			continue
		}
		client, seq := e.Op.Client, e.Op.Seq
		if e.Op.By == "" {
			r.unknown("it is not known who acknowledged client %d, seq %d", client, seq)
			continue
		}
		if reads[group.writer].Has(client, seq) {
			r.evidence++
			continue
		}
		if e.Span.NotAfter >= reads[group.writer].First {
			r.unknown("client %d, seq %d was acknowledged while the final read was on: it cannot be missed", client,
				seq)
			continue
		}
		promised, why := r.promised(op)
		if overtaken(op) {
			promised, why = true, ""
		}
		switch {
		case why != "":
			r.unknown("client %d, seq %d, acknowledged by %s, is gone, and %s", client, seq, e.Op.By, why)
			continue
		case !promised:
			allowed++
			continue
		}
		var with []string
		for _, name := range keys(reads) {
			if reads[name].Has(client, seq) {
				with = append(with, name)
			}
		}
		if r.trial.Plan.Workload.Multi() && len(with) > 0 && group.facts[group.writer].Member.Executed == "" {
			r.unknown("client %d, seq %d is not on %s, which may be late; %s", client, seq, group.writer, holders(with))
			continue
		}
		r.violation(Finding{Subject: fmt.Sprintf("%s row (client %d, seq %d)", e.Op.Instance, client, seq),
			Span:   history.Between(e.Span.NotAfter, reads[group.writer].Last.NotAfter),
			Events: proof(e.ID, reads[group.writer].Chunks[1].ID, group.facts[group.writer].ID)},
			"A row that %s had acknowledged at %s is lost: client %d, seq %d is not on %s, the writer; %s; of the "+
				"transactions of %s (%s) %s.", e.Op.By, r.clock(e.Span.NotAfter), client, seq, group.writer,
			holders(with), e.Op.By, e.Op.Server, group.of(e.Op.Server))
	}
	if allowed > 0 {
		why := ""
		if r.trial.Plan.Workload.TopologyName() == plan.TopologySemiSync {
			why = ", since semi-synchronous replication had fallen back"
		}
		r.note("%d acknowledged rows are lost, which topology %s allows: nothing was promised of them%s", allowed,
			r.trial.Plan.Workload.Topology, why)
	} else if r.trial.Plan.Workload.TopologyName() == plan.TopologyAsync {
		r.note("no acknowledged row is lost, though topology async promises nothing")
	}
}

// holders says which instances have a row.
func holders(names []string) string {
	if len(names) == 0 {
		return "no instance has it"
	}
	return "it is on " + strings.Join(names, ", ")
}

// tenure is who acknowledges, and how many promotions there were before.
type tenure struct {
	by, server string
	term       int
}

// overtaken returns a function that reports whether the writer must have a row, whatever its topology promises: it has
// one that the same server committed later and as the same primary, of whose commits a replica has the first ones; or
// it acknowledged the row itself, and nobody was promoted since. Of a group of others it is not known who was.
func (r *ruling) overtaken(g finalGroup, final *world.Read) func(world.Operation) bool {
	var promoted []history.Time
	for _, e := range r.world.Of(history.KindPromotion) {
		if e.Promotion.Act == history.ActPromote {
			promoted = append(promoted, e.Span.NotAfter)
		}
	}
	slices.Sort(promoted)
	at := func(e *history.Event, t history.Time) tenure {
		term, _ := slices.BinarySearch(promoted, t)
		return tenure{e.Op.By, e.Op.Server, term}
	}
	until := map[tenure]history.Time{{g.writer, g.facts[g.writer].Member.Server, len(promoted)}: world.Forever}
	for _, op := range r.world.Operations() {
		e := op.Answer
		if e != nil && op.Sent != nil && e.Op.F == history.OpInsert && e.Op.Stage == history.StageOK &&
			final.Has(e.Op.Client, e.Op.Seq) {
			of := at(e, e.Span.NotAfter)
			until[of] = max(until[of], op.Sent.Span.NotBefore)
		}
	}
	return func(op world.Operation) bool {
		e := op.Answer
		return r.trial.Plan.Workload.External == nil && e.Op.Server != "" &&
			e.Span.NotAfter < until[at(e, e.Span.NotBefore)]
	}
}

// promised reports whether the topology promised that an acknowledged insert survives. Why is what keeps that from
// being known.
func (r *ruling) promised(op world.Operation) (promised bool, why string) {
	switch r.trial.Plan.Workload.TopologyName() {
	case plan.TopologyAsync:
		return false, ""
	case plan.TopologyGroup, plan.TopologyMulti:
		return true, ""
	}
	// The last sample before the insert was sent, and the first after it was acknowledged. By then it may take writes
	// no more, which ends the waiting, but not the count of the commits that did not wait.
	by, seen := op.Answer.Op.By, [2]*history.Event{}
	for _, e := range r.world.Of(history.KindMember) {
		m := e.Member
		switch {
		case m.Label != "" || m.Instance != by || m.Error != "":
		case op.Sent != nil && e.Span.NotAfter <= op.Sent.Span.NotBefore && m.Writable:
			seen[0] = e
		case e.Span.NotBefore >= op.Answer.Span.NotAfter && seen[1] == nil &&
			(m.Writable || m.Server == op.Answer.Op.Server):
			seen[1] = e
		}
	}
	var on, off, without int64
	for _, e := range seen {
		switch {
		case e == nil || !e.Member.Writable:
		case e.Member.SemiSync:
			on++
		default:
			off++
		}
	}
	if seen[1] != nil {
		without = seen[1].Member.Unacked // Since its start: without a sample before, each of them may be this one.
		if seen[0] != nil {
			without -= seen[0].Member.Unacked
		}
		// What waits when it is made read-only goes on without a replica: its clients were disconnected.
		if !seen[1].Member.Writable && seen[0] != nil && !r.configured() && r.trial.Plan.Workload.External == nil {
			within := history.Between(seen[0].Span.NotBefore, seen[1].Span.NotAfter)
			without = max(0, without-r.unanswered(within))
		}
	}
	switch {
	case on+off == 0, r.trial.Plan.Workload.External != nil && !r.semiSync():
		return false, "whether it waited for replicas was never seen"
	case on == 0 && off == int64(len(seen)) && !unasked(seen[0], op):
		return false, "" // It had fallen back.
	case on == 0:
		return false, "whether it waited for replicas then was not seen"
	case r.trial.Plan.Workload.External != nil && unasked(seen[0], op), seen[1] == nil && r.configured():
		return false, "whether it waited for replicas then was not seen"
	case (r.configured() || r.trial.Plan.Workload.External != nil) && seen[1] != nil && !seen[1].Member.Writable &&
		without <= 0 && !r.ranOn(by, history.Between(seen[0].Span.NotBefore, seen[1].Span.NotAfter)):
		// It may have fallen back and begun again, which ends its count.
		return false, "whether it waited for replicas then was not seen"
	case off > 0 || without != 0:
		return false, "semi-synchronous replication fell back around then"
	}
	return true, ""
}

// ranOn reports whether one process of an instance's server was seen to run for all of a time.
func (r *ruling) ranOn(instance string, within history.Span) bool {
	return slices.ContainsFunc(r.world.Containers().Processes, func(p *world.Process) bool {
		pod := r.world.Pods().ByUID[p.Pod]
		return p.Name == world.Database && pod != nil && pod.Name == instance && p.From <= within.NotBefore &&
			within.NotAfter <= p.To
	})
}

// configured reports whether a step of the plan may have changed how long a commit waits for a replica: its program is
// told of semi-synchronous replication, and not only of when others see what waits.
func (r *ruling) configured() bool {
	return slices.ContainsFunc(r.trial.Plan.AllSteps(), func(s plan.Step) bool {
		return s.Exec != nil && strings.Contains(strings.ReplaceAll(strings.Join(s.Exec.Command, "\n"),
			"semi_sync_source_wait_point", ""), "semi_sync")
	})
}

// unanswered counts the operations within a time whose clients know of no outcome.
func (r *ruling) unanswered(within history.Span) (n int64) {
	for _, op := range r.world.Operations() {
		span := history.Span{NotBefore: history.Time(0), NotAfter: world.Forever}
		if op.Sent != nil {
			span.NotBefore = op.Sent.Span.NotBefore
		}
		if op.Answer != nil {
			span.NotAfter = op.Answer.Span.NotAfter
		}
		if (op.Answer == nil || op.Answer.Op.Stage == history.StageUnknown) && span.PossiblyOverlaps(within) {
			n++
		}
	}
	return n
}

// askedEvery is longer than the pause between two samples of an instance that answers.
const askedEvery = 5 * time.Second

// unasked reports whether the last sample before an insert was sent is not known or old.
func unasked(before *history.Event, op world.Operation) bool {
	return before == nil || op.Sent == nil || op.Sent.Span.NotBefore.Sub(before.Span.NotAfter) > askedEvery
}

// semiSync reports whether any instance was ever seen to wait for replicas.
func (r *ruling) semiSync() bool {
	return slices.ContainsFunc(r.world.Of(history.KindMember), func(e *history.Event) bool { return e.Member.SemiSync })
}

// finalGroup is what the instances of a group have in the end.
type finalGroup struct {
	writer string
	facts  map[string]*history.Event // Of each instance that answered.
	has    map[string]history.GTIDs
}

// finalGroup reads the final facts; without exactly one writer among them it gives a reason. Where several take writes,
// writer is the leading one in group replication, else empty.
func (r *ruling) finalGroup() finalGroup {
	g := finalGroup{facts: map[string]*history.Event{}, has: map[string]history.GTIDs{}}
	var writers []string
	for _, e := range r.world.Of(history.KindMember) {
		m := e.Member
		if m.Label != history.FinalRead {
			continue
		}
		set, err := history.ParseGTIDs(m.Executed)
		if m.Error != "" || err != nil {
			r.unknown("%s did not say what it has in the end: %s", m.Instance, m.Error)
			continue
		}
		g.facts[m.Instance], g.has[m.Instance] = e, set
		if m.Writable {
			writers = append(writers, m.Instance)
		}
	}
	for _, name := range r.trial.Instances(r.trial.Finally()) {
		if g.facts[name] == nil {
			r.unknown("%s never said which transactions it has in the end", name)
		}
	}
	work := r.trial.Plan.Workload
	if work.GroupReplication() && (work.Multi() || len(writers) > 1) {
		g.writer = g.leading(writers)
	} else if len(writers) == 1 {
		g.writer = writers[0]
	}
	if g.writer == "" || len(writers) > 1 && !work.Multi() {
		slices.Sort(writers)
		r.unknown("the group has %d writers in the end, %q: what it has is not known", len(writers), writers)
	}
	return g
}

// leading returns, of instances that take writes, the first of those that have all of the most instances: members that
// went on without a majority have gone their own way. It is "" if that one was not waited for to have all of each.
func (g finalGroup) leading(writers []string) string {
	best, most := "", 0
	for _, name := range slices.Sorted(slices.Values(writers)) {
		n := 0
		for _, set := range g.has {
			if g.has[name].Has(set) {
				n++
			}
		}
		if n > most {
			best, most = name, n
		}
	}
	if best != "" && most < len(g.has) && g.facts[best].Member.Waited < waitedEnough {
		return ""
	}
	return best
}

// of says which of a server's transactions each instance has; all that it has, if the source of its transactions is
// another one, as in group replication.
func (g finalGroup) of(server string) string {
	server = strings.ToLower(server)
	var said []string
	for _, name := range keys(g.has) {
		own := g.has[name].String()
		if ranges := g.has[name][server]; len(ranges) > 0 {
			_, own, _ = strings.Cut(history.GTIDs{server: ranges}.String(), ":")
		}
		said = append(said, name+" has "+own)
	}
	return strings.Join(said, ", ")
}
