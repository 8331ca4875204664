package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Rows judges what the clients wrote against what can be read back.
//
// The row of an insert must be there if the insert was acknowledged, must not be there if it certainly failed or was
// never made, and may be there at any time if its outcome is unknown. Reads during the trial are judged by the same
// rule: a read must find every row acknowledged before the read was sent, even if the final read has the row again. A
// row counts as acknowledged before a read only if the latest time of the acknowledgement is before the earliest time
// of the read; otherwise the read may miss it.
func Rows() Check {
	return Check{
		Name:    "rows",
		When:    End,
		Promise: "Every acknowledged row is there, once and intact, and nothing is there that nobody wrote.",
		Source: "MySQL 9 Reference Manual, InnoDB and the ACID Model: a committed change survives any crash " +
			"(innodb_flush_log_at_trx_commit=1, sync_binlog=1)",
		Applies: hasData,
		Unit:    "acknowledged rows",
		judge:   judgeRows,
	}
}

func judgeRows(r *ruling) {
	if r.trial.Plan.Workload.Grouped() { // Check acknowledged judges what must be there.
		r.Promise = "Every row that is there was written by a client, and is there once and intact."
		if r.trial.Plan.Workload.TopologyName() == plan.TopologyGroup &&
			slices.ContainsFunc(r.world.Of(history.KindMember), func(e *history.Event) bool {
				return e.Member.Consistency != ""
			}) {
			r.Promise += " A primary that has taken a write shows what was acknowledged before it, unless its " +
				"consistency is EVENTUAL."
		}
	}
	t := &table{ruling: r, clients: map[writer]inserts{}, acked: map[string]int{},
		strange: map[rowKey]*rowBreach{}, orphans: map[rowKey]bool{}}
	t.readInserts()
	t.readReads()
	t.judgeBetween()
	t.judgeFinal(r.world.Reads(history.FinalRead))
	t.judgeAmounts()
	if t.stale > 0 {
		t.note("%s missed a row acknowledged before, which EVENTUAL allows", plan.Count(t.stale, "read"))
	}
	t.report()
}

// writer is a client and the instance that it writes to.
type writer struct {
	instance string
	client   int
}

// rowKey identifies a row. A client never uses a seq for two inserts.
type rowKey struct {
	writer
	seq int64
}

// insert is the insert of one row.
type insert struct {
	key      rowKey
	crc      uint32
	times    int           // How often it is in the read being judged.
	stage    history.Stage // StageInvoke while it is open.
	answered history.Span  // Span of the answer.
	lastSeen history.Time  // The last read that found it was not before this; 0 if none did.
	invoke   int64         // Event ids.
	answer   int64
	breach   *rowBreach
	lost     bool // A read of all rows missed it, and none has found it since.
	reused   bool // Two inserts used its seq, which no client may do: it cannot be judged.
}

// rowBreach is everything found wrong with one row; it becomes one finding.
type rowBreach struct {
	key      rowKey
	sentence string
	span     history.Span
	events   []int64
	step     int // The step whose read of all rows missed the row; 0 if it was found in another way.
	again    int // Further observations of the same row.
}

// inserts holds the inserts of one client, sorted by seq.
type inserts []insert

// find returns the insert of a seq, nil if the client never made it.
func (in inserts) find(seq int64) *insert {
	i, ok := slices.BinarySearchFunc(in, seq, func(row insert, seq int64) int { return cmp.Compare(row.key.seq, seq) })
	if !ok {
		return nil
	}
	return &in[i]
}

// table is the ledger table as the clients' answers demand it.
type table struct {
	*ruling
	clients   map[writer]inserts
	strange   map[rowKey]*rowBreach // Rows that no client wrote.
	orphans   map[rowKey]bool       // Rows with an answer but no recorded invocation.
	acked     map[string]int        // Acknowledged inserts by instance.
	present   int                   // Acknowledged rows found intact in a whole final read.
	unknowns  int                   // Inserts of unknown outcome.
	stale     int                   // Reads that missed a row where EVENTUAL allows it.
	unknownIn int                   // Those of unknowns that are in the final read.
}

// readInserts reads all inserts.
func (t *table) readInserts() {
	count := map[writer]int{}
	each := func(do func(op world.Operation, w writer)) {
		for _, op := range t.world.Operations() {
			if e := cmp.Or(op.Sent, op.Answer); e.Op.F == history.OpInsert {
				do(op, writer{e.Op.Instance, e.Op.Client})
			}
		}
	}
	each(func(_ world.Operation, w writer) { count[w]++ })
	for w, n := range count {
		t.clients[w] = make(inserts, 0, n)
	}
	each(func(op world.Operation, w writer) {
		if op.Sent == nil {
			t.orphans[rowKey{w, op.Answer.Op.Seq}] = true
			t.unknown("%s client %d: the answer to insert %d has no invocation before it, or came twice: "+
				"the record of that client is not whole", w.instance, w.client, op.Answer.Op.Number)
			return
		}
		t.clients[w] = append(t.clients[w], t.insert(op, w))
	})
	for w, in := range t.clients {
		t.clients[w] = t.sorted(in)
	}
}

// insert converts one operation.
func (t *table) insert(op world.Operation, w writer) insert {
	row := insert{key: rowKey{w, op.Sent.Op.Seq}, crc: op.Sent.Op.CRC, stage: history.StageInvoke, invoke: op.Sent.ID}
	switch e := op.Answer; {
	case e == nil:
		t.unknowns++
	case e.Op.Seq != row.key.seq:
		t.unknown("%s client %d: the answer to the insert of seq %d speaks of seq %d", w.instance, w.client,
			row.key.seq, e.Op.Seq)
		t.unknowns++
	default:
		row.stage, row.answered, row.answer = e.Op.Stage, e.Span, e.ID
		switch e.Op.Stage {
		case history.StageOK:
			t.acked[w.instance]++
		case history.StageFailed:
		default:
			row.stage = history.StageUnknown
			t.unknowns++
		}
	}
	return row
}

// sorted sorts the inserts of a client by seq; if a seq was used twice, it keeps the first.
func (t *table) sorted(in inserts) inserts {
	bySeq := func(a, b insert) int { return cmp.Compare(a.key.seq, b.key.seq) }
	if !slices.IsSortedFunc(in, bySeq) {
		slices.SortStableFunc(in, func(a, b insert) int { return cmp.Or(bySeq(a, b), cmp.Compare(a.invoke, b.invoke)) })
	}
	kept := in[:0]
	for _, row := range in {
		if n := len(kept); n > 0 && kept[n-1].key.seq == row.key.seq {
			kept[n-1].reused = true
			t.unknown("%s client %d used seq %d for two inserts: its row cannot be judged", row.key.instance,
				row.key.client, row.key.seq)
			continue
		}
		kept = append(kept, row)
	}
	return kept
}

// each calls do for the rows that were written to an instance, client by client.
func (t *table) each(instance string, do func(*insert)) {
	var clients []int
	for w := range t.clients {
		if w.instance == instance {
			clients = append(clients, w.client)
		}
	}
	slices.Sort(clients)
	for _, client := range clients {
		rows := t.clients[writer{instance, client}]
		for i := range rows {
			do(&rows[i])
		}
	}
}

// judgeAmounts demands that every instance acknowledged enough inserts to show that rows survive.
func (t *table) judgeAmounts() {
	s := t.trial
	for _, name := range s.Written(s.Plan.Workload.Replicas) {
		if n := t.acked[name]; n < s.Plan.Bounds.MinOps {
			t.unknown("%s acknowledged %s, the plan demands %d: too few to show that rows survive",
				name, plan.Count(n, "insert"), s.Plan.Bounds.MinOps)
		}
	}
	t.evidence = t.present
	if t.unknowns > 0 {
		t.note("%s had no certain outcome, as when a connection breaks during COMMIT; %d are there",
			plan.Count(t.unknowns, "insert"), t.unknownIn)
	}
}

// report turns the breaches into findings, one for each row.
func (t *table) report() {
	var all []*rowBreach
	for _, rows := range t.clients {
		for i := range rows {
			if b := rows[i].breach; b != nil {
				all = append(all, b)
			}
		}
	}
	all = slices.AppendSeq(all, maps.Values(t.strange))
	slices.SortFunc(all, func(a, b *rowBreach) int {
		return cmp.Or(cmp.Compare(a.span.NotAfter, b.span.NotAfter), cmp.Compare(a.key.instance, b.key.instance),
			cmp.Compare(a.key.client, b.key.client), cmp.Compare(a.key.seq, b.key.seq))
	})
	// A lost disk loses every row: format only the sentences that will be listed.
	listed := spread(all, maxFindings)
	t.unlisted = len(all) - len(listed)
	for _, b := range listed {
		if b.again > 0 {
			b.sentence += fmt.Sprintf(" It was seen to be wrong in %d more places.", b.again)
		}
		t.violation(Finding{Subject: fmt.Sprintf("%s row (%s)", b.key.instance, b.key), Span: b.span,
			Events: b.events}, "%s", b.sentence)
	}
}

// spread chooses the breaches to list: the first row that each read of all rows missed in each instance, then the
// second, and so on, so that the many rows of one loss do not hide another.
func spread(all []*rowBreach, most int) []*rowBreach {
	type place struct {
		instance string
		step     int
	}
	depth := map[place]int{}
	turns := make(map[*rowBreach]int, len(all))
	for _, b := range all {
		var at place
		if b.step > 0 {
			at = place{b.key.instance, b.step}
		}
		turns[b] = depth[at]
		depth[at]++
	}
	chosen := slices.Clone(all)
	slices.SortStableFunc(chosen, func(a, b *rowBreach) int { return cmp.Compare(turns[a], turns[b]) })
	chosen = chosen[:min(len(chosen), most)]
	return slices.DeleteFunc(slices.Clone(all), func(b *rowBreach) bool { return !slices.Contains(chosen, b) })
}

// String names the row in the sentences about an instance.
func (k rowKey) String() string { return fmt.Sprintf("client %d, seq %d", k.client, k.seq) }

// blame adds an observation to a row's breach, proven by its insert and by further events; the first observation gives
// the sentence of the finding.
func (t *table) blame(row *insert, span history.Span, events []int64, format string, args ...any) {
	if !row.reused {
		events = append([]int64{row.invoke, row.answer}, events...)
		row.breach = row.breach.and(row.key, span, events, format, args...)
	}
}

// and adds an observation to a breach. The receiver may be nil: a row that had no breach yet.
func (b *rowBreach) and(key rowKey, span history.Span, events []int64, format string, args ...any) *rowBreach {
	if b == nil {
		b = &rowBreach{key: key, span: span, sentence: fmt.Sprintf(format, args...), again: -1}
	}
	if b.again++; len(b.events) < maxProof {
		b.events = append(b.events, events...)
	}
	return b
}

// blameStranger adds an observation of a row that no client wrote.
func (t *table) blameStranger(key rowKey, e *history.Event, span history.Span, format string, args ...any) {
	if !t.orphans[key] { // A client did write an orphan.
		t.strange[key] = t.strange[key].and(key, span, []int64{e.ID}, format, args...)
	}
}

// sinceSafe returns the span from when the row was last certainly there to the proof that it is not.
func (row *insert) sinceSafe(proof history.Span) history.Span {
	return history.Between(max(row.answered.NotAfter, row.lastSeen), proof.NotAfter)
}
