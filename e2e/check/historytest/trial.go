// Package historytest builds the histories of made-up trials, for the tests of checks and reports.
//
// It imports the standard library, chaos/history and chaos/plan. Nothing but tests may import it.
package historytest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Start is when every made-up trial begins: 1000 s after the machine's boot.
const Start = history.Time(1000 * time.Second)

// At returns the time that many seconds after the begin of the trial.
func At(seconds float64) history.Time {
	return Start.Add(time.Duration(seconds * float64(time.Second)))
}

// Trial collects the facts of a made-up trial in any order.
type Trial struct {
	Plan    plan.Plan
	events  []history.Event
	version int                 // The last resourceVersion assigned.
	uids    map[string]string   // The uid of the living pod of each name.
	made    map[string][]string // All uids of each name, in order.
	nodes   map[string]string   // The node of each pod, by pod name; none if it is not scheduled.
	calls   int
	numbers map[int]int64 // The last operation number of each client.
	rows    map[string][]history.Row
	mountID uint64
	at      timetable
}

// New begins a trial of p.
func New(p plan.Plan) *Trial {
	t := &Trial{Plan: p, uids: map[string]string{}, made: map[string][]string{}, nodes: map[string]string{},
		numbers: map[int]int64{}, rows: map[string][]history.Row{}}
	t.Add(history.Event{Kind: history.KindPlan, Source: "trial", Span: history.At(Start), Plan: encode(p)})
	return t
}

// encode encodes plain data, such as a plan or an object of maps, which cannot fail.
func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// Add adds an event.
func (t *Trial) Add(e history.Event) { t.events = append(t.events, e) }

// fact adds an event with a source and a span, from and to in seconds since the begin of the trial.
func (t *Trial) fact(source string, from, to float64, e history.Event) {
	e.Source, e.Span = source, history.Between(At(from), At(to))
	t.Add(e)
}

// spell adds the begin and the end of something; no end if to is 0. Both become known within 0.2 s.
func (t *Trial) spell(node string, from, to float64, fact func(history.ProcessAction) history.Event) {
	t.fact("ledger/"+node, from-0.2, from, fact(history.ProcessStarted))
	if to != 0 {
		t.fact("ledger/"+node, to-0.2, to, fact(history.ProcessGone))
	}
}

// History returns the events sorted by the end of their spans and numbered, with resourceVersions in that order, and
// with the statuses that a StatefulSet controller would have written.
func (t *Trial) History() history.History {
	events := slices.Clone(t.events)
	slices.SortStableFunc(events,
		func(a, b history.Event) int { return cmp.Compare(a.Span.NotAfter, b.Span.NotAfter) })
	events = withStatuses(events)
	version := 0
	for i := range events {
		events[i].ID = int64(i + 1)
		if o := events[i].Object; o != nil {
			version++
			fresh := *o
			fresh.ResourceVersion = strconv.Itoa(version)
			events[i].Object = &fresh
		}
	}
	return history.History{Events: events}
}

// Phase adds the begin and the end of a phase or step.
func (t *Trial) Phase(name history.PhaseName, step int, from, to float64) {
	begin := history.Phase{Name: name, Step: step}
	end := begin
	end.End = true
	t.fact("trial", from, from, history.Event{Kind: history.KindPhase, Phase: &begin})
	t.fact("trial", to, to, history.Event{Kind: history.KindPhase, Phase: &end})
}

// Done adds the event that ends a whole history.
func (t *Trial) Done(at float64) {
	t.fact("trial", at, at, history.Event{Kind: history.KindPhase,
		Phase: &history.Phase{Name: history.PhaseDone, End: true}})
}

// CRC is the checksum that the made-up clients write.
func CRC(client int, seq int64) uint32 { return uint32(client)*1_000_003 + uint32(seq)*7 + 1 }

// Insert adds an insert and its answer; with StageInvoke it has no answer. The final read has the acknowledged rows,
// and of the rows of unknown outcome those with an even seq.
func (t *Trial) Insert(instance string, client int, seq int64, stage history.Stage, from, to float64) {
	op := history.Op{F: history.OpInsert, Client: client, Instance: instance, Seq: seq, CRC: CRC(client, seq)}
	answer := op
	if answer.Stage = stage; stage != history.StageOK {
		answer.Error = "connection lost"
	}
	t.op(op, answer, from, to)
	if stage == history.StageOK || stage == history.StageUnknown && seq%2 == 0 {
		t.rows[instance] = append(t.rows[instance],
			history.Row{Client: client, Seq: seq, CRC: op.CRC, Sum: op.CRC})
	}
}

// Read adds an answered read of one row.
func (t *Trial) Read(instance string, client int, seq int64, found bool, from, to float64) {
	op := history.Op{F: history.OpRead, Client: client, Instance: instance, Seq: seq}
	answer := op
	answer.Stage, answer.Found = history.StageOK, &found
	if found {
		answer.Intact, answer.CRC = &found, CRC(client, seq)
	}
	t.op(op, answer, from, to)
}

// op adds an operation and its answer; with StageInvoke it has no answer.
func (t *Trial) op(sent, answer history.Op, from, to float64) {
	t.numbers[sent.Client]++
	sent.Number, sent.Stage = t.numbers[sent.Client], history.StageInvoke
	source := fmt.Sprintf("client/%d", sent.Client)
	t.fact(source, from, from, history.Event{Kind: history.KindOp, Op: &sent})
	if answer.Stage != history.StageInvoke {
		answer.Number = sent.Number
		t.fact(source, from, to, history.Event{Kind: history.KindOp, Op: &answer})
	}
}

// FinalRows adds the final read of an instance in two chunks.
func (t *Trial) FinalRows(instance string, at float64) {
	rows := t.rows[instance]
	half := len(rows) / 2
	for i, part := range [][]history.Row{rows[:half], rows[half:]} {
		t.fact("trial", at, at+0.1, history.Event{Kind: history.KindRows, Rows: &history.Rows{Instance: instance,
			Read: history.FinalRead, Chunk: i + 1, Chunks: 2, Rows: slices.Clone(part)}})
	}
}

// Checksum adds a checksum of one table.
func (t *Trial) Checksum(instance, table string, quiet bool, label string, step int, at float64) {
	t.fact("trial", at, at+0.05, history.Event{Kind: history.KindChecksum,
		Checksum: &history.Checksum{Instance: instance, Table: table, Quiet: quiet, Label: label, Step: step,
			Table64: 2_746_154_123, Rows: 1000,
			RowHash: "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"}})
}

// FaultTimes are the times of a fault's stages, in seconds since the begin of the trial.
type FaultTimes struct {
	Intent, Injected, InjectedEnd, Confirmed, Healed, HealedEnd, Over float64
}

// Fault adds all stages of a fault.
func (t *Trial) Fault(step int, name, node, victim string, at FaultTimes) {
	add := func(stage history.FaultStage, from, to float64, evidence ...string) {
		t.fact("guard", from, to, history.Event{Kind: history.KindFault,
			Fault: &history.Fault{Step: step, Name: name, Stage: stage, Node: node, Victim: victim,
				Evidence: evidence}})
	}
	add(history.StageIntent, at.Intent, at.Intent)
	add(history.StageInjected, at.Injected, at.InjectedEnd)
	add(history.StageConfirmed, at.Confirmed, at.Confirmed, name+" was seen to have taken effect on "+node)
	add(history.StageHealed, at.Healed, at.HealedEnd)
	add(history.StageConfirmedHealed, at.Over, at.Over, name+" was seen to be gone from "+node)
}
