package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
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

type tracer struct {
	s      *story
	events []traceEvent
	async  int // Pairs of asynchronous events.
}

// WriteTrace writes the phases, faults, mounts, findings and operations of a run as a trace for ui.perfetto.dev.
func WriteTrace(w io.Writer, j Judged) error {
	t := &tracer{s: newStory(j)}
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
	err := json.NewEncoder(w).Encode(map[string]any{"displayTimeUnit": "ms", "traceEvents": t.events})
	if err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	return nil
}

// at is a time of the trace; what has no end ends with the record.
func (t *tracer) at(when history.Time) float64 {
	return float64(min(when, t.s.World.Last()).Sub(t.s.start).Nanoseconds()) / 1e3
}

func (t *tracer) put(e traceEvent) {
	e.Name = clean(e.Name)
	t.events = append(t.events, e)
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
	for _, p := range t.s.World.Phases() {
		if p.Begin == nil {
			continue
		}
		of, to, end := p.Begin.Phase, world.Forever, " (no end)"
		if p.End != nil {
			to, end = p.End.Span.NotAfter, ""
		}
		name := string(of.Name)
		if of.Step > 0 {
			name = fmt.Sprintf("step %d", of.Step)
		}
		t.span(traceTrial, name+": "+of.Detail+end, p.Begin.Span.NotBefore, to, nil)
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

// operations writes one track for each client. One without an answer is unknown and lasts to the end.
func (t *tracer) operations() {
	instances := map[string]int{}
	for _, op := range t.s.World.Operations() {
		if op.Sent == nil {
			continue
		}
		o, to, stage, why := op.Sent.Op, world.Forever, history.StageUnknown, "no answer"
		if e := op.Answer; e != nil {
			to, stage, why = e.Span.NotAfter, e.Op.Stage, e.Op.Error
		}
		of := o.Instance
		if o.Client == history.Auditor { // Of a group each instance has one.
			of = cmp.Or(o.By, of)
		}
		process, ok := instances[of]
		if !ok {
			process = traceClients + len(instances)
			instances[of] = process
			t.named(process, "clients of "+of)
		}
		from := t.at(op.Sent.Span.NotBefore)
		e := traceEvent{Name: string(o.F), Category: string(stage), Phase: "X", Time: from, Lasts: t.at(to) - from,
			Process: process, Thread: o.Client, Args: map[string]any{"fact": op.Sent.ID, "seq": o.Seq}}
		if stage != history.StageOK {
			e.Name += " " + string(stage)
			e.Args["error"] = why
		}
		t.put(e)
	}
}
