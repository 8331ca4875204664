package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// traceEvent is an event of the Chrome JSON trace format, which ui.perfetto.dev opens. Times are in microseconds from
// the first fact. Events of one track must nest, so only operations, one client to a track, are complete events ("X");
// what may overlap is a pair of asynchronous ones ("b", "e").
type traceEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Time     float64        `json:"ts"`
	Lasts    float64        `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	ID       int            `json:"id,omitempty"`
	Scope    string         `json:"s,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// The processes of a trace, each a group of tracks.
const (
	traceTrial = iota + 1
	traceFaults
	traceMounts
	traceFindings
	traceClients // And one more for each further instance.
)

// tracer writes a trace.
type tracer struct {
	s     *story
	w     *bufio.Writer
	n     int // Events written.
	async int // Pairs of asynchronous events.
	err   error
}

// WriteTrace writes the phases, faults, mounts, findings and operations of a run as a trace for ui.perfetto.dev.
func WriteTrace(w io.Writer, j Judged) error {
	t := &tracer{s: newStory(j), w: bufio.NewWriter(w)}
	t.raw(`{"displayTimeUnit":"ms","traceEvents":[`)
	for i, name := range []string{"trial", "faults", "mounts", "findings"} {
		t.named(traceTrial+i, name)
	}
	t.phases()
	t.faults()
	for _, m := range t.s.World.Ledger().Lives {
		t.span(traceMounts, m.Node+" "+strings.Join(m.Paths, " "), m.From, m.MaybeTo, nil)
	}
	for _, r := range t.s.Report.Results {
		for _, f := range r.Findings {
			t.put(traceEvent{Name: r.Check + ": " + f.Sentence, Phase: "i", Time: t.at(f.Span.NotBefore), Scope: "g",
				Process: traceFindings, Args: map[string]any{"facts": f.Events, "faults": f.Faults}})
		}
	}
	t.operations()
	t.raw("\n]}\n")
	if t.err == nil {
		t.err = t.w.Flush()
	}
	if t.err != nil {
		return fmt.Errorf("write trace: %w", t.err)
	}
	return nil
}

// at is a time of the trace; what has no end ends with the record.
func (t *tracer) at(when history.Time) float64 {
	return float64(min(when, t.s.World.Last()).Sub(t.s.start).Nanoseconds()) / 1e3
}

func (t *tracer) raw(text string) {
	if t.err == nil {
		_, t.err = t.w.WriteString(text)
	}
}

func (t *tracer) put(e traceEvent) {
	e.Name = clean(e.Name)
	text, err := json.Marshal(e)
	if t.err == nil {
		t.err = err
	}
	if t.n++; t.n > 1 {
		t.raw(",")
	}
	t.raw("\n" + string(text))
}

// named names a group of tracks.
func (t *tracer) named(process int, name string) {
	t.put(traceEvent{Name: "process_name", Phase: "M", Process: process, Args: map[string]any{"name": clean(name)}})
}

// span writes what lasts from one time to another and may overlap with others.
func (t *tracer) span(process int, name string, from, to history.Time, args map[string]any) {
	t.async++
	e := traceEvent{Name: name, Category: "span", Phase: "b", Time: t.at(from), Process: process, ID: t.async}
	e.Args = args
	t.put(e)
	e.Phase, e.Time, e.Args = "e", max(e.Time, t.at(to)), nil
	t.put(e)
}

func (t *tracer) phases() {
	type key struct {
		name history.PhaseName
		step int
	}
	begun := map[key]*history.Event{}
	name := func(p *history.Phase) string {
		if p.Step > 0 {
			return fmt.Sprintf("step %d: %s", p.Step, p.Detail)
		}
		return string(p.Name) + ": " + p.Detail
	}
	for _, e := range t.s.World.Of(history.KindPhase) {
		k := key{e.Phase.Name, e.Phase.Step}
		if b := begun[k]; e.Phase.End && b != nil {
			t.span(traceTrial, name(b.Phase), b.Span.NotBefore, e.Span.NotAfter, nil)
			delete(begun, k)
		} else if !e.Phase.End {
			begun[k] = e
		}
	}
	for _, b := range slices.SortedFunc(maps.Values(begun), func(a, b *history.Event) int { return int(a.ID - b.ID) }) {
		t.span(traceTrial, name(b.Phase)+" (no end)", b.Span.NotBefore, world.Forever, nil)
	}
}

// faults writes each fault from its first stage to its last, and its stages.
func (t *tracer) faults() {
	for _, f := range t.s.faults {
		var from, to history.Time
		args, reached := map[string]any{}, 0
		for _, stage := range world.LifeStages() {
			e := f.Facts[stage]
			if e == nil {
				continue
			}
			if reached++; reached == 1 {
				from = e.Span.NotBefore
			}
			to = max(to, e.Span.NotAfter)
			args[string(stage)+" (s)"] = t.at(e.Span.NotAfter) / 1e6
			t.put(traceEvent{Name: f.String() + " " + string(stage), Phase: "i", Time: t.at(e.Span.NotAfter),
				Scope: "p", Process: traceFaults,
				Args: map[string]any{"facts": []int64{e.ID}, "evidence": e.Fault.Evidence}})
		}
		if reached > 0 {
			t.span(traceFaults, fmt.Sprintf("%s on %s", f, f.Node), from, to, args)
		}
	}
}

// operations writes one track for each client.
func (t *tracer) operations() {
	instances := map[string]int{}
	operations(t.s.World, func(invoked *history.Event, to history.Time, stage history.Stage, why string) {
		o := invoked.Op
		process, ok := instances[o.Instance]
		if !ok {
			process = traceClients + len(instances)
			instances[o.Instance] = process
			t.named(process, "clients of "+o.Instance)
		}
		from := t.at(invoked.Span.NotBefore)
		e := traceEvent{Name: string(o.F), Category: string(stage), Phase: "X", Time: from, Lasts: t.at(to) - from,
			Process: process, Thread: o.Client, Args: map[string]any{"fact": invoked.ID, "seq": o.Seq}}
		if stage != history.StageOK {
			e.Name += " " + string(stage)
			e.Args["error"] = why
		}
		t.put(e)
	})
}

// operations calls answer for each operation, with when it ended, and how and why. One without an answer is unknown and
// lasts to the next one of its client.
func operations(w *world.World,
	answer func(invoked *history.Event, to history.Time, stage history.Stage, why string),
) {
	open := map[int]*history.Event{}
	for _, e := range w.Of(history.KindOp) {
		before := open[e.Op.Client]
		delete(open, e.Op.Client)
		switch {
		case e.Op.Stage == history.StageInvoke:
			if before != nil {
				answer(before, e.Span.NotBefore, history.StageUnknown, "no answer")
			}
			open[e.Op.Client] = e
		case before != nil && before.Op.Number == e.Op.Number:
			answer(before, e.Span.NotAfter, e.Op.Stage, e.Op.Error)
		}
	}
	for _, client := range slices.Sorted(maps.Keys(open)) {
		answer(open[client], world.Forever, history.StageUnknown, "no answer")
	}
}
