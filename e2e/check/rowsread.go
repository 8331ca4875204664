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
	for _, op := range t.world.Operations() {
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

// judgeRead judges one answered read against the rows acknowledged before it was sent.
func (t *table) judgeRead(sent, got *history.Event) {
	key := rowKey{writer{got.Op.Instance, got.Op.Client}, got.Op.Seq}
	row := t.clients[key.writer].find(key.seq)
	span := hull(sent.Span, got.Span)
	switch {
	case row == nil && *got.Op.Found:
		t.blameStranger(key, got, span, "%s returned at %s a row that no client wrote: %s.", key.instance,
			t.clock(got.Span.NotAfter), key)
	case row == nil:
	case !*got.Op.Found:
		switch {
		case row.stage != history.StageOK || !row.answered.CertainlyBefore(sent.Span):
		case t.trial.Plan.Workload.Grouped():
			t.judgeStale(row, sent, got)
		default:
			t.blame(row, row.sinceSafe(got.Span), []int64{sent.ID, got.ID}, "%s lost a row for a time or for good: "+
				"%s, acknowledged at %s, was not found by a read answered at %s.", key.instance, key,
				t.clock(row.answered.NotAfter), t.clock(got.Span.NotAfter))
		}
	case got.Op.Intact != nil && !*got.Op.Intact, got.Op.CRC != row.crc:
		intact := "not told"
		if got.Op.Intact != nil {
			intact = map[bool]string{true: "yes", false: "no"}[*got.Op.Intact]
		}
		t.blame(row, span, []int64{got.ID}, "%s returned a damaged row at %s: %s was written with crc %08x and read "+
			"with crc %08x (intact: %s).", key.instance, t.clock(got.Span.NotAfter), key, row.crc, got.Op.CRC, intact)
	case row.stage == history.StageFailed:
		t.blame(row, span, []int64{got.ID}, "%s returned at %s a row whose insert it had refused: %s.", key.instance,
			t.clock(got.Span.NotAfter), key)
	default:
		row.lastSeen = max(row.lastSeen, span.NotBefore)
	}
}

// judgeStale judges a read in a group that missed a row. A primary in group replication takes no write before it has
// what the ones before it acknowledged (BEFORE_ON_PRIMARY_FAILOVER), and may be asked again later, frozen meanwhile: so
// what counts is what was acknowledged before a write of its own.
func (t *table) judgeStale(row *insert, sent, got *history.Event) {
	if t.trial.Plan.Workload.TopologyName() != plan.TopologyGroup || got.Op.Server == "" {
		return
	}
	known := false
	for _, e := range t.world.Of(history.KindMember) {
		if e.Member.Server == got.Op.Server && e.Member.Consistency == "EVENTUAL" {
			t.stale++
			return
		}
		known = known || e.Member.Server == got.Op.Server && e.Member.Consistency != ""
	}
	if !known {
		return
	}
	for _, op := range t.world.Operations() {
		if op.Sent == nil || op.Answer == nil || op.Answer.Op.F != history.OpInsert ||
			op.Answer.Op.Stage != history.StageOK || op.Answer.Op.Server != got.Op.Server ||
			!row.answered.CertainlyBefore(op.Sent.Span) || !op.Answer.Span.CertainlyBefore(sent.Span) {
			continue
		}
		t.blame(row, row.sinceSafe(got.Span), []int64{sent.ID, op.Answer.ID, got.ID}, "%s, a primary, did not show %s "+
			"at %s, which was acknowledged at %s, before it took a write itself.", got.Op.By, row.key,
			t.clock(got.Span.NotAfter), t.clock(row.answered.NotAfter))
		return
	}
}

// judgeFinal judges the final reads against the clients' answers. Rows in a read are judged even if the read is not
// whole; a row can be missing only from a whole read.
func (t *table) judgeFinal(reads map[string]*world.Read) {
	names := slices.Concat(t.trial.Instances(t.trial.Plan.Workload.Replicas), keys(t.acked), keys(reads))
	if t.trial.Plan.Workload.Grouped() { // What acknowledges is the group, whose rows its last members have.
		names = slices.Concat(t.trial.Instances(t.trial.Finally()), keys(reads))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		f := reads[name]
		why := f.Lacks()
		if why != "" {
			t.unknown("%s was not read back whole at the end: %s", name, why)
		}
		if f != nil {
			t.judgeSeen(name, f)
		}
		if why == "" {
			t.each(t.trial.Origin(name), func(row *insert) { t.judgeKept(name, row, f) })
		}
	}
}

// judgeSeen judges every row in a read of an instance and counts how often each is there.
func (t *table) judgeSeen(name string, f *world.Read) {
	origin := t.trial.Origin(name)
	t.each(origin, func(row *insert) { row.times = 0 })
	for _, n := range slices.Sorted(maps.Keys(f.Chunks)) {
		e := f.Chunks[n]
		for _, seen := range e.Rows.Rows {
			key := rowKey{writer{origin, seen.Client}, seen.Seq}
			row := t.clients[key.writer].find(key.seq)
			if row == nil {
				t.blameStranger(key, e, e.Span, "%s holds a row that no client wrote: %s.", name, key)
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
		t.blame(row, e.Span, []int64{e.ID}, "%s holds one row %d times: %s.", name, row.times, key)
	case seen.CRC != row.crc || seen.Sum != seen.CRC:
		t.blame(row, row.sinceSafe(e.Span), []int64{e.ID}, "%s holds a damaged row: %s was written with crc %08x; "+
			"stored are crc %08x and a payload of crc %08x.", name, key, row.crc, seen.CRC, seen.Sum)
	case row.stage == history.StageFailed:
		t.blame(row, hull(row.answered, e.Span), []int64{e.ID}, "%s holds a row whose insert %s had refused: %s.",
			name, t.writtenTo(name, key), key)
	}
}

// writtenTo names the instance that a row was written to: "it" if that is the subject of the sentence.
func (t *table) writtenTo(name string, key rowKey) string {
	if name == key.instance {
		return "it"
	}
	return key.instance
}

// judgeKept judges whether a row is in the whole final read of an instance: the one that it was written to or a
// replica.
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
		t.unknown("%s %s was acknowledged while the final read was on: it cannot be missed", row.key.instance, row.key)
	case !row.lost && !t.trial.Plan.Workload.Grouped():
		t.judgeLost(name, row, f, "the final read")
	}
}

func (t *table) judgeLost(name string, row *insert, f *world.Read, read string) {
	key := row.key
	var ids []int64
	for _, e := range f.Chunks {
		if e.Rows.Chunk == 1 || e.Rows.Chunk == f.Total {
			ids = append(ids, e.ID)
		}
	}
	seen := ""
	if row.lastSeen > 0 {
		seen = fmt.Sprintf(" last read back at %s,", t.clock(row.lastSeen))
	}
	t.blame(row, row.sinceSafe(f.Last), proof(ids...), "%s lost a row that %s had acknowledged: %s, acknowledged "+
		"at %s,%s is not in %s.", name, t.writtenTo(name, key), key, t.clock(row.answered.NotAfter), seen, read)
}

// judgeBetween judges the reads of all rows made by steps of the plan by the same rule as the final read. They show
// after which of several faults a row was lost.
func (t *table) judgeBetween() {
	before := map[string]history.Time{} // By instance: when the previous read began.
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

// judgeWhole judges one whole read of one instance; since is when the previous read began.
func (t *table) judgeWhole(name string, step int, f *world.Read, since history.Time) {
	acknowledged, lost := 0, map[int][]int64{} // Since the previous read: rows, and the lost seqs by client.
	t.judgeSeen(name, f)
	t.each(t.trial.Origin(name), func(row *insert) {
		if row.times > 0 {
			row.lastSeen = max(row.lastSeen, f.First)
		}
		if row.stage != history.StageOK || row.answered.NotAfter >= f.First {
			return
		}
		if row.answered.NotAfter >= since {
			acknowledged++
		}
		switch {
		case row.times > 0:
			row.lost = false
		case name != row.key.instance: // A copy may be late, or of a group: the final read is waited for.
		case !row.lost:
			row.lost = true
			lost[row.key.client] = append(lost[row.key.client], row.key.seq)
			t.judgeLost(name, row, f, fmt.Sprintf("the read of step %d", step))
			if row.breach != nil && row.breach.again == 0 {
				row.breach.step = step
			}
		}
	})
	if faults := t.trial.FaultsIn(history.Between(since, f.First)); len(faults) > 0 {
		t.note("%s: %s %s", strings.Join(faults, " and "), name, loss(acknowledged, lost))
	}
}

// loss says which rows a read of all rows missed that the previous one had not missed, and how many.
func loss(acknowledged int, lost map[int][]int64) string {
	if len(lost) == 0 {
		return fmt.Sprintf("lost none of the %d rows that were acknowledged since the read before", acknowledged)
	}
	n, words := 0, []string{}
	for _, client := range slices.Sorted(maps.Keys(lost)) {
		n += len(lost[client])
		words = append(words, fmt.Sprintf("client %d, seq %s", client, ranges(lost[client])))
	}
	return fmt.Sprintf("lost %d rows, of %d that were acknowledged since the read before: %s", n, acknowledged,
		strings.Join(words, "; "))
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
