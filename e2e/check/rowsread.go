package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// readReads judges the reads made while the trial ran.
func (t *table) readReads() {
	for _, op := range t.world.Operations().All {
		e := op.Answer
		if e == nil || e.Op.F != history.OpRead || e.Op.Stage != history.StageOK {
			continue
		}
		if op.Sent == nil || op.Sent.Op.F != e.Op.F || op.Sent.Op.Seq != e.Op.Seq || e.Op.Found == nil {
			t.unknown("%s client %d: the answer to read %d has no invocation or no content: "+
				"the record of that client is not whole", e.Op.Instance, e.Op.Client, e.Op.Number)
			continue
		}
		t.judgeRead(op.Sent, e)
	}
}

// judgeRead holds one answered read to what was acknowledged before it was sent.
func (t *table) judgeRead(sent, got *history.Event) {
	key := rowKey{writer{got.Op.Instance, got.Op.Client}, got.Op.Seq}
	row := t.clients[key.writer].find(key.seq)
	span := hull(sent.Span, got.Span)
	switch {
	case row == nil && *got.Op.Found:
		t.blameStranger(key, span, fmt.Sprintf("%s returned at %s a row that no client wrote: client %d, seq %d.",
			key.instance, t.clock(got.Span.NotAfter), key.client, key.seq), got.ID)
		return
	case row == nil:
		return
	}
	if *got.Op.Found {
		t.judgeFound(row, got, span)
		return
	}
	if row.stage == history.StageOK && row.answered.CertainlyBefore(sent.Span) {
		t.blame(row, row.sinceSafe(got.Span), fmt.Sprintf(
			"%s lost a row for a time or for good: client %d, seq %d, %s, was not found by a read answered at %s.",
			key.instance, key.client, key.seq, t.when(row), t.clock(got.Span.NotAfter)),
			row.invoke, row.answer, sent.ID, got.ID)
	}
}

// judgeFound judges a row that a read returned.
func (t *table) judgeFound(row *insert, got *history.Event, span history.Span) {
	key := row.key
	at := t.clock(got.Span.NotAfter)
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

// judgeFinal holds the final reads to the clients' answers. What a read shows is judged though the read is not whole;
// that a row is missing is claimed of whole reads alone.
func (t *table) judgeFinal(reads map[string]*world.Read) {
	for _, name := range t.audited(reads) {
		f := reads[name]
		why := f.Lacks()
		if why != "" {
			t.unknown("%s was not read back whole at the end: %s", name, why)
		}
		if f == nil {
			continue
		}
		t.judgeSeen(name, f)
		if why == "" {
			t.each(t.trial.Origin(name), func(row *insert) { t.judgeKept(name, row, f) })
		}
	}
}

// audited returns the instances that need a final read, in order: those of the plan, those that were written to, and
// those that were read.
func (t *table) audited(reads map[string]*world.Read) []string {
	names := t.trial.Instances(t.trial.Plan.Workload.Replicas)
	for name := range t.acked {
		names = append(names, name)
	}
	for name := range reads {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// judgeSeen judges every row that a read of an instance shows and counts how often each is there.
func (t *table) judgeSeen(name string, f *world.Read) {
	origin := t.trial.Origin(name)
	t.each(origin, func(row *insert) { row.times = 0 })
	for _, n := range slices.Sorted(maps.Keys(f.Chunks)) {
		e := f.Chunks[n]
		for _, seen := range e.Rows.Rows {
			key := rowKey{writer{origin, seen.Client}, seen.Seq}
			row := t.clients[key.writer].find(key.seq)
			if row == nil {
				t.blameStranger(key, e.Span, fmt.Sprintf("%s holds a row that no client wrote: client %d, seq %d.",
					name, seen.Client, seen.Seq), e.ID)
				continue
			}
			row.times++
			t.judgeSeenRow(name, row, seen, e)
		}
	}
}

func (t *table) judgeSeenRow(name string, row *insert, seen history.Row, e *history.Event) {
	key := row.key
	switch {
	case row.times > 1:
		t.blame(row, e.Span, fmt.Sprintf("%s holds one row %d times: client %d, seq %d.",
			name, row.times, key.client, key.seq), row.invoke, row.answer, e.ID)
	case seen.CRC != row.crc || seen.Sum != seen.CRC:
		t.blame(row, row.sinceSafe(e.Span), fmt.Sprintf(
			"%s holds a damaged row: client %d, seq %d was written with crc %08x; "+
				"stored are crc %08x and a payload of crc %08x.",
			name, key.client, key.seq, row.crc, seen.CRC, seen.Sum), row.invoke, row.answer, e.ID)
	case row.stage == history.StageFailed:
		t.blame(row, hull(row.answered, e.Span), fmt.Sprintf(
			"%s holds a row whose insert %s had refused: client %d, seq %d.", name, t.it(name, key), key.client,
			key.seq), row.invoke, row.answer, e.ID)
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
func (t *table) judgeKept(name string, row *insert, f *world.Read) {
	open := row.stage == history.StageUnknown || row.stage == history.StageInvoke
	switch {
	case open && row.times > 0:
		if name == row.key.instance {
			t.unknownIn++
		}
	case row.stage != history.StageOK:
	case row.times == 1 && row.breach == nil:
		t.present++
	case row.times > 0:
	case row.answered.NotAfter >= f.First:
		t.unknown("%s client %d, seq %d was acknowledged while the final read was on: it cannot be missed",
			row.key.instance, row.key.client, row.key.seq)
	case !row.lost:
		t.judgeLost(name, row, f, "the final read")
	}
}

func (t *table) judgeLost(name string, row *insert, f *world.Read, read string) {
	key := row.key
	ids := []int64{row.invoke, row.answer}
	for _, e := range f.Chunks {
		if e.Rows.Chunk == 1 || e.Rows.Chunk == f.Total {
			ids = append(ids, e.ID)
		}
	}
	seen := ""
	if row.lastSeen > 0 {
		seen = fmt.Sprintf(" last read back at %s,", t.clock(row.lastSeen))
	}
	t.blame(row, row.sinceSafe(f.Last), fmt.Sprintf(
		"%s lost a row that %s had acknowledged: client %d, seq %d, %s,%s is not in %s.",
		name, t.it(name, key), key.client, key.seq, t.when(row), seen, read), proof(ids...)...)
}

func compareKeys(a, b rowKey) int {
	return cmp.Or(cmp.Compare(a.instance, b.instance), cmp.Compare(a.client, b.client), cmp.Compare(a.seq, b.seq))
}

// judgeBetween judges the reads of all rows that steps of the plan made. They are held to the same as the final one,
// and tell after which of several faults a row was lost.
func (t *table) judgeBetween() {
	before := map[string]history.Time{} // By instance: when the read before began.
	for _, step := range t.trial.Plan.AllSteps() {
		if step.Do != plan.ActionRead || t.trial.StepPhase(step.N).Begin == nil {
			continue
		}
		reads := t.world.Reads(history.ReadOfStep(step.N))
		for _, name := range t.trial.Instances(t.trial.ReplicasAt(step.N)) {
			f := reads[name]
			if why := f.Lacks(); why != "" {
				t.unknown("%s was not read back whole in step %d: %s", name, step.N, why)
				continue
			}
			since, ok := before[name]
			if !ok {
				since = t.trial.Start
			}
			t.judgeWhole(name, step.N, f, since)
			before[name] = f.First
		}
	}
}

// judgeWhole judges one whole read of one instance.
func (t *table) judgeWhole(name string, step int, f *world.Read, since history.Time) {
	l := loss{since: since, read: history.Between(f.First, f.Last.NotAfter)}
	t.judgeSeen(name, f)
	t.each(t.trial.Origin(name), func(row *insert) {
		if row.times > 0 {
			row.lastSeen = max(row.lastSeen, f.First)
		}
		if row.stage != history.StageOK || row.answered.NotAfter >= f.First {
			return
		}
		if row.answered.NotAfter >= since {
			l.acknowledged++
		}
		switch {
		case row.times > 0:
			row.lost = false
		case !row.lost:
			row.lost = true
			l.rows = append(l.rows, row.key)
			t.judgeLost(name, row, f, fmt.Sprintf("the read of step %d", step))
			if row.breach != nil && row.breach.again == 0 {
				row.breach.step = step
			}
		}
	})
	if faults := t.trial.FaultsIn(history.Between(since, f.First)); len(faults) > 0 {
		t.note("%s: %s %s", strings.Join(faults, " and "), name, l)
	}
}

// loss is what one read of all rows has missed that the one before it had not.
type loss struct {
	since        history.Time // When the read before began.
	read         history.Span
	acknowledged int // Rows, between the two.
	rows         []rowKey
}

// String says how many rows were lost, and which, by their clients.
func (l loss) String() string {
	if len(l.rows) == 0 {
		return fmt.Sprintf("lost none of the %d rows that were acknowledged since the read before", l.acknowledged)
	}
	byClient := map[int][]int64{}
	for _, k := range l.rows {
		byClient[k.client] = append(byClient[k.client], k.seq)
	}
	var words []string
	for _, client := range slices.Sorted(maps.Keys(byClient)) {
		words = append(words, fmt.Sprintf("client %d, seq %s", client, ranges(byClient[client])))
	}
	return fmt.Sprintf("lost %d rows, of %d that were acknowledged since the read before: %s", len(l.rows),
		l.acknowledged, strings.Join(words, "; "))
}

// ranges renders numbers as "3-7, 9".
func ranges(all []int64) string {
	slices.SortFunc(all, cmp.Compare[int64])
	var words []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		if i == j {
			words = append(words, fmt.Sprint(all[i]))
		} else {
			words = append(words, fmt.Sprintf("%d-%d", all[i], all[j]))
		}
		i = j + 1
	}
	return strings.Join(words, ", ")
}
