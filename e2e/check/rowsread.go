package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// readReads judges the reads made while the trial ran.
func (t *table) readReads(h *world.World) {
	open := map[opKey]*history.Event{}
	for _, e := range h.Of(history.KindOp) {
		if e.Op.F != history.OpRead {
			continue
		}
		op := opKey{e.Op.Instance, e.Op.Client, e.Op.Number}
		if e.Op.Stage == history.StageInvoke {
			open[op] = e
			continue
		}
		sent := open[op]
		delete(open, op)
		if e.Op.Stage != history.StageOK {
			continue
		}
		if sent == nil || sent.Op.Seq != e.Op.Seq || e.Op.Found == nil {
			t.ruling.unknown("%s client %d: the answer to read %d has no invocation or no content: "+
				"the record of that client is not whole", op.instance, op.client, op.number)
			continue
		}
		t.judgeRead(sent, e)
	}
}

// judgeRead holds one answered read to what was acknowledged before it was sent.
func (t *table) judgeRead(sent, got *history.Event) {
	key := rowKey{got.Op.Instance, got.Op.Client, got.Op.Seq}
	at, known := t.index[key]
	span := hull(sent.Span, got.Span)
	switch {
	case !known && *got.Op.Found:
		t.blameStranger(key, span, fmt.Sprintf("%s returned at %s a row that no client wrote: client %d, seq %d.",
			key.instance, t.scene.Clock(got.Span.NotAfter), key.client, key.seq), got.ID)
		return
	case !known:
		return
	}
	row := &t.rows[at]
	if *got.Op.Found {
		t.judgeFound(row, got, span)
		return
	}
	if row.stage == history.StageOK && row.answered.CertainlyBefore(sent.Span) {
		t.blame(row, row.sinceSafe(got.Span), fmt.Sprintf(
			"%s lost a row for a time or for good: client %d, seq %d, %s, was not found by a read answered at %s.",
			key.instance, key.client, key.seq, t.when(row), t.scene.Clock(got.Span.NotAfter)),
			row.invoke, row.answer, sent.ID, got.ID)
	}
}

// judgeFound judges a row that a read returned.
func (t *table) judgeFound(row *insert, got *history.Event, span history.Span) {
	key := row.key
	at := t.scene.Clock(got.Span.NotAfter)
	switch {
	case got.Op.Intact != nil && !*got.Op.Intact, got.Op.CRC != row.crc:
		t.blame(row, span, fmt.Sprintf(
			"%s returned a damaged row at %s: client %d, seq %d was written with crc %08x "+
				"and read with crc %08x (intact: %s).",
			key.instance, at, key.client, key.seq, row.crc, got.Op.CRC, yesNo(got.Op.Intact)),
			row.invoke, row.answer, got.ID)
	case row.stage == history.StageFailed:
		t.blame(row, span, fmt.Sprintf(
			"%s returned at %s a row whose insert it had refused: client %d, seq %d.",
			key.instance, at, key.client, key.seq),
			row.invoke, row.answer, got.ID)
	default:
		row.lastSeen = max(row.lastSeen, span.NotBefore)
	}
}

func yesNo(b *bool) string {
	switch {
	case b == nil:
		return "not told"
	case *b:
		return "yes"
	}
	return "no"
}

// finalRows is the final read of one instance.
type finalRows struct {
	chunks  map[int]*history.Event
	total   int
	spoiled string // Why it is not whole, as far as its chunks say; "" when nothing speaks against it.
	first   history.Time
	last    history.Span
}

// gatherReads puts the chunks of the reads with a label together.
func gatherReads(h *world.World, label string) map[string]*finalRows {
	reads := map[string]*finalRows{}
	for _, e := range h.Of(history.KindRows) {
		if e.Rows.Read != label {
			continue
		}
		f := reads[e.Rows.Instance]
		if f == nil {
			f = &finalRows{chunks: map[int]*history.Event{}, total: e.Rows.Chunks, first: noTime}
			reads[e.Rows.Instance] = f
		}
		f.add(e)
	}
	return reads
}

func (f *finalRows) add(e *history.Event) {
	if f.first == noTime || e.Span.NotBefore < f.first {
		f.first = e.Span.NotBefore
	}
	if e.Span.NotAfter >= f.last.NotAfter {
		f.last = e.Span
	}
	switch {
	case e.Rows.Error != "":
		f.spoiled = "it broke off: " + e.Rows.Error
		return
	case e.Rows.Chunks != f.total:
		f.spoiled = "its chunks disagree on how many they are"
	case e.Rows.Chunk < 1 || e.Rows.Chunk > e.Rows.Chunks:
		f.spoiled = fmt.Sprintf("it has a chunk %d of %d", e.Rows.Chunk, e.Rows.Chunks)
	case f.chunks[e.Rows.Chunk] != nil:
		f.spoiled = fmt.Sprintf("chunk %d is there twice", e.Rows.Chunk)
		return // A row is there twice only if one read says so.
	}
	f.chunks[e.Rows.Chunk] = e
}

// lacks says why the read is not whole, "" when it is.
func (f *finalRows) lacks() string {
	switch {
	case f == nil:
		return "there is none"
	case f.spoiled != "":
		return f.spoiled
	case f.total < 1 || len(f.chunks) != f.total:
		return fmt.Sprintf("%d of its %d chunks are there", len(f.chunks), f.total)
	}
	return ""
}

// seenRow is one row of a final read.
type seenRow struct {
	key   rowKey
	row   history.Row
	event int64
}

// judgeFinal holds the final reads to the clients' answers. What a read shows is judged though the read is not whole;
// that a row is missing is claimed of whole reads alone.
func (t *table) judgeFinal(reads map[string]*finalRows) {
	for _, name := range t.audited(reads) {
		f := reads[name]
		why := f.lacks()
		if why != "" {
			t.ruling.unknown("%s was not read back whole at the end: %s", name, why)
		}
		if f == nil {
			continue
		}
		count := make([]int, len(t.rows))
		t.judgeSeen(name, f, count)
		if why != "" {
			continue
		}
		for i := range t.rows {
			if row := &t.rows[i]; row.key.instance == t.scene.Origin(name) {
				t.judgeKept(name, row, count[i], f)
			}
		}
	}
}

// audited returns the instances that need a final read, in order: those of the plan, those that were written to, and
// those that were read.
func (t *table) audited(reads map[string]*finalRows) []string {
	names := t.scene.Instances(t.scene.Plan.Workload.Replicas)
	for name := range t.acked {
		names = append(names, name)
	}
	for name := range reads {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// judgeSeen judges every row that a final read shows and counts how often each is there.
func (t *table) judgeSeen(name string, f *finalRows, count []int) {
	chunks := make([]int, 0, len(f.chunks))
	for n := range f.chunks {
		chunks = append(chunks, n)
	}
	slices.Sort(chunks)
	for _, n := range chunks {
		e := f.chunks[n]
		for _, row := range e.Rows.Rows {
			seen := seenRow{rowKey{t.scene.Origin(name), row.Client, row.Seq}, row, e.ID}
			at, known := t.index[seen.key]
			if !known {
				t.blameStranger(seen.key, e.Span, fmt.Sprintf(
					"%s holds a row that no client wrote: client %d, seq %d.", name, row.Client, row.Seq), e.ID)
				continue
			}
			count[at]++
			t.judgeSeenRow(name, &t.rows[at], seen, e.Span, count[at])
		}
	}
}

func (t *table) judgeSeenRow(name string, row *insert, seen seenRow, span history.Span, times int) {
	key := row.key
	switch {
	case times > 1:
		t.blame(row, span, fmt.Sprintf("%s holds one row %d times: client %d, seq %d.",
			name, times, key.client, key.seq), row.invoke, row.answer, seen.event)
	case seen.row.CRC != row.crc || seen.row.Sum != seen.row.CRC:
		t.blame(row, row.sinceSafe(span), fmt.Sprintf(
			"%s holds a damaged row: client %d, seq %d was written with crc %08x; "+
				"stored are crc %08x and a payload of crc %08x.",
			name, key.client, key.seq, row.crc, seen.row.CRC, seen.row.Sum), row.invoke, row.answer, seen.event)
	case row.stage == history.StageFailed:
		t.blame(row, hull(row.answered, span), fmt.Sprintf(
			"%s holds a row whose insert %s had refused: client %d, seq %d.", name, t.it(name, key), key.client,
			key.seq),
			row.invoke, row.answer, seen.event)
	}
}

// it is how a sentence on an instance goes on about the one that a row was written to.
func (t *table) it(name string, key rowKey) string {
	if name == key.instance {
		return "it"
	}
	return key.instance
}

// judgeKept judges whether a row is in the whole final read of an instance: the one it was written to, or a copy.
func (t *table) judgeKept(name string, row *insert, times int, f *finalRows) {
	open := row.stage == history.StageUnknown || row.stage == history.StageInvoke
	switch {
	case open && times > 0:
		if name == row.key.instance {
			t.unknownIn++
		}
	case row.stage != history.StageOK:
	case times == 1 && row.breach == nil:
		t.present++
	case times > 0:
	case row.answered.NotAfter >= f.first:
		t.ruling.unknown("%s client %d, seq %d was acknowledged while the final read was on: it cannot be missed",
			row.key.instance, row.key.client, row.key.seq)
	case !row.lost:
		t.judgeLost(name, row, f, "the final read")
	}
}

func (t *table) judgeLost(name string, row *insert, f *finalRows, read string) {
	key := row.key
	ids := []int64{row.invoke, row.answer}
	for _, e := range f.chunks {
		if e.Rows.Chunk == 1 || e.Rows.Chunk == f.total {
			ids = append(ids, e.ID)
		}
	}
	seen := ""
	if row.lastSeen > 0 {
		seen = fmt.Sprintf(" last read back at %s,", t.scene.Clock(row.lastSeen))
	}
	t.blame(row, row.sinceSafe(f.last), fmt.Sprintf(
		"%s lost a row that %s had acknowledged: client %d, seq %d, %s,%s is not in %s.",
		name, t.it(name, key), key.client, key.seq, t.when(row), seen, read), proof(ids...)...)
}

func compareKeys(a, b rowKey) int {
	return cmp.Or(cmp.Compare(a.instance, b.instance), cmp.Compare(a.client, b.client), cmp.Compare(a.seq, b.seq))
}
