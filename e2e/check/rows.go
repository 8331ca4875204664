package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// finalRead is the label of the read that the workload makes when everything is over.
const finalRead = "final"

// Rows judges what the clients wrote against what can be read back.
//
// An insert is one of four things: acknowledged (it must be there), certainly failed (it must not), of unknown outcome
// or never answered (it may be there, from the first to the last moment), or never made (it must not be there).
// Reads made during the trial are held to the same: a row acknowledged before a read was sent must be found by it,
// although the final read may have it again. "Before" is certain only when the acknowledgement's latest moment is
// before the read's earliest one; otherwise the read may miss the row and break nothing.
func Rows() Check {
	return Check{
		Name:    "rows",
		Promise: "Every acknowledged row is there, once and intact, and nothing is there that nobody wrote.",
		Source: "MySQL 9 Reference Manual, InnoDB and the ACID Model: a committed change survives any crash " +
			"(innodb_flush_log_at_trx_commit=1, sync_binlog=1)",
		Applies: hasData,
		Judge:   judgeRows,
	}
}

func judgeRows(h *world.World) Result {
	r := newRuling("acknowledged rows")
	s, err := h.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	t := newTable(s, r)
	t.readInserts(h)
	t.readReads(h)
	t.judgeBetween(h)
	t.judgeFinal(gatherReads(h, finalRead))
	t.judgeAmounts()
	t.report()
	return r.result()
}

// rowKey names a row. A client never uses a Seq for two inserts.
type rowKey struct {
	instance string
	client   int
	seq      int64
}

// insert is what is known of the insert of one row.
type insert struct {
	key      rowKey
	crc      uint32
	stage    history.Stage // StageInvoke while it is open.
	answered history.Span  // Of the completion.
	sent     history.Span
	lastSeen history.Time // A read found it, not before this; 0 when none did.
	invoke   int64        // Event ids.
	answer   int64
	breach   *rowBreach
	lost     bool // A read of all rows missed it, and none has found it since.
	reused   bool // Its seq was used for two inserts, which no client may do: nothing can be said of it.
}

// rowBreach is everything found wrong with one row; it becomes one finding.
type rowBreach struct {
	key      rowKey
	sentence string
	span     history.Span
	events   []int64
	step     int // Of the step whose read of all rows has missed it; 0 when it was found in another way.
	again    int // Further observations of the same row.
}

// table is the ledger table as the clients' answers say it must be.
type table struct {
	scene     *world.Trial
	ruling    *ruling
	rows      []insert
	index     map[rowKey]int
	strange   map[rowKey]*rowBreach // Rows that nobody wrote.
	orphans   map[rowKey]bool       // Rows of which an answer came though no invocation is recorded.
	acked     map[string]int        // Acknowledged inserts by instance.
	present   int                   // Acknowledged rows found whole in a whole final read.
	unknowns  int
	unknownIn int // Of those, found in the final read.
}

func newTable(s *world.Trial, r *ruling) *table {
	return &table{scene: s, ruling: r, index: map[rowKey]int{}, acked: map[string]int{},
		strange: map[rowKey]*rowBreach{}, orphans: map[rowKey]bool{}}
}

// opKey pairs an invocation with its completion.
type opKey struct {
	instance string
	client   int
	number   int64
}

// readInserts takes in every insert. The facts of one client come in the order of its doings, since it records them
// itself and one after another.
func (t *table) readInserts(h *world.World) {
	open := map[opKey]int{}
	for _, e := range h.Of(history.KindOp) {
		if e.Op.F != history.OpInsert {
			continue
		}
		op := opKey{e.Op.Instance, e.Op.Client, e.Op.Number}
		if e.Op.Stage == history.StageInvoke {
			t.invoke(e, op, open)
			continue
		}
		at, ok := open[op]
		if !ok {
			t.orphans[rowKey{e.Op.Instance, e.Op.Client, e.Op.Seq}] = true
			t.ruling.unknown("%s client %d: the answer to insert %d has no invocation before it, or came twice: "+
				"the record of that client is not whole", op.instance, op.client, op.number)
			continue
		}
		delete(open, op)
		t.answer(e, at)
	}
	for i := range t.rows {
		if st := t.rows[i].stage; st == history.StageUnknown || st == history.StageInvoke {
			t.unknowns++
		}
	}
}

func (t *table) invoke(e *history.Event, op opKey, open map[opKey]int) {
	key := rowKey{e.Op.Instance, e.Op.Client, e.Op.Seq}
	if at, twice := t.index[key]; twice {
		t.rows[at].reused = true
		t.ruling.unknown("%s client %d used seq %d for two inserts: its row cannot be judged",
			key.instance, key.client, key.seq)
		return
	}
	t.index[key] = len(t.rows)
	open[op] = len(t.rows)
	t.rows = append(t.rows, insert{
		key: key, crc: e.Op.CRC, stage: history.StageInvoke, sent: e.Span, invoke: e.ID,
	})
}

func (t *table) answer(e *history.Event, at int) {
	row := &t.rows[at]
	if e.Op.Seq != row.key.seq {
		t.ruling.unknown("%s client %d: the answer to the insert of seq %d speaks of seq %d",
			row.key.instance, row.key.client, row.key.seq, e.Op.Seq)
		return
	}
	row.stage, row.answered, row.answer = e.Op.Stage, e.Span, e.ID
	switch e.Op.Stage {
	case history.StageOK:
		t.acked[row.key.instance]++
	case history.StageFailed, history.StageUnknown:
	default:
		row.stage = history.StageUnknown
	}
}

// judgeAmounts demands that every instance of the plan took enough inserts for its survival to mean something.
func (t *table) judgeAmounts() {
	s := t.scene
	for _, name := range s.Instances(s.Written(s.Plan.Workload.Replicas)) {
		if n := t.acked[name]; n < s.Plan.Bounds.MinOps {
			t.ruling.unknown("%s acknowledged %d inserts, the plan demands %d: too few to show that rows survive",
				name, n, s.Plan.Bounds.MinOps)
		}
	}
	t.ruling.evidence = t.present
	if t.unknowns > 0 {
		t.ruling.note("%d inserts had no certain outcome, as when a connection breaks during COMMIT; %d are there",
			t.unknowns, t.unknownIn)
	}
}

// report turns what was found wrong into findings, one for each row.
func (t *table) report() {
	var all []*rowBreach
	for i := range t.rows {
		if b := t.rows[i].breach; b != nil {
			all = append(all, b)
		}
	}
	for _, b := range t.strange {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b *rowBreach) int {
		return cmp.Or(cmp.Compare(a.span.NotAfter, b.span.NotAfter), compareKeys(a.key, b.key))
	})
	// A lost disk loses every row: what will not be listed need not be put into words.
	listed := spread(all, maxFindings)
	t.ruling.unlisted = len(all) - len(listed)
	for _, b := range listed {
		sentence := b.sentence
		if b.again > 0 {
			sentence += fmt.Sprintf(" It was seen to be wrong in %d more places.", b.again)
		}
		t.ruling.breach(Finding{
			Promise:  Rows().Promise,
			Sentence: sentence,
			Subject:  b.key.String(),
			Span:     b.span,
			Events:   b.events,
			Faults:   t.scene.FaultsIn(b.span),
		})
	}
}

// spread chooses which breaches are listed: the first that each read of all rows has missed in each instance, then the
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

// String names the row as findings do.
func (k rowKey) String() string {
	return fmt.Sprintf("%s row (client %d, seq %d)", k.instance, k.client, k.seq)
}

// blame keeps what is wrong with a row; the first breach of a row gives its sentence.
func (t *table) blame(row *insert, span history.Span, sentence string, events ...int64) {
	if row.reused {
		return
	}
	if row.breach == nil {
		row.breach = &rowBreach{key: row.key, sentence: sentence, span: span}
	} else {
		row.breach.again++
	}
	if len(row.breach.events) < maxProof {
		row.breach.events = append(row.breach.events, events...)
	}
}

// blameStranger keeps a row that nobody wrote.
func (t *table) blameStranger(key rowKey, span history.Span, sentence string, event int64) {
	if t.orphans[key] {
		return // Somebody wrote it; the record of that is not whole, which is said elsewhere.
	}
	b := t.strange[key]
	if b == nil {
		t.strange[key] = &rowBreach{key: key, sentence: sentence, span: span, events: []int64{event}}
		return
	}
	b.again++
	if len(b.events) < maxProof {
		b.events = append(b.events, event)
	}
}

// when says when a row was acknowledged.
func (t *table) when(row *insert) string {
	return fmt.Sprintf("acknowledged at %s", t.scene.Clock(row.answered.NotAfter))
}

// sinceSafe is the span from the last moment at which the row was certainly there to the proof that it is not.
func (row *insert) sinceSafe(proof history.Span) history.Span {
	return history.Between(max(row.answered.NotAfter, row.lastSeen), proof.NotAfter)
}

// noTime stands for a read of which nothing came.
const noTime = history.Time(math.MinInt64)
