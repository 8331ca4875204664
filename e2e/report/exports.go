package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/world"
)

// annotation is the body of a request to Grafana's POST /api/annotations. Times are in milliseconds since 1970.
type annotation struct {
	Time    int64    `json:"time"`
	TimeEnd int64    `json:"timeEnd"`
	Tags    []string `json:"tags"`
	Text    string   `json:"text"`
}

// WriteAnnotations writes the trial, its faults from injection to the end of their effect, and its findings as a JSON
// array of annotations for Grafana. The clock is that of the harness as the trial began.
func WriteAnnotations(w io.Writer, j Judged) error {
	s := newStory(j)
	scenario, seed := s.name()
	at := func(t history.Time) int64 {
		return j.Run.Started.Add(min(t, s.World.Last()).Sub(s.start)).UnixMilli()
	}
	var all []annotation
	add := func(from, to history.Time, kind, name, text string) {
		tags := []string{"seatrial", kind, clean(name), "run:" + j.Run.RunID}
		all = append(all, annotation{at(from), max(at(from), at(to)), tags, clean(text)})
	}
	add(s.start, s.World.Last(), "trial", scenario, fmt.Sprintf("%s: %s, seed %d", j.Report.Verdict, scenario, seed))
	for _, f := range s.faults {
		injected := f.Facts[history.StageInjected]
		if injected == nil {
			continue
		}
		to := world.Forever
		if over := f.Facts[history.StageConfirmedHealed]; over != nil {
			to = over.Span.NotAfter
		}
		add(injected.Span.NotBefore, to, "fault", f.Name, fmt.Sprintf("%s on %s", f, f.Node))
	}
	for _, r := range j.Report.Results {
		for _, f := range r.Findings {
			add(f.Span.NotBefore, f.Span.NotAfter, "finding", r.Check, f.Sentence)
		}
	}
	return writeJSON(w, "annotations", all)
}

// metrics writes Prometheus' text format.
type metrics struct {
	strings.Builder
	name string
}

// metric begins a metric.
func (m *metrics) metric(name, kind, help string) {
	m.name = "seatrial_" + name
	fmt.Fprintf(m, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", m.name, help, kind)
}

// sample writes a value of the metric that was begun last; labels are pairs of name and value.
func (m *metrics) sample(value float64, suffix string, labels ...string) {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var pairs []string
	for pair := range slices.Chunk(labels, 2) {
		pairs = append(pairs, fmt.Sprintf(`%s="%s"`, pair[0], escape.Replace(clean(pair[1]))))
	}
	in := ""
	if len(pairs) > 0 {
		in = "{" + strings.Join(pairs, ",") + "}"
	}
	fmt.Fprintf(m, "%s%s%s %s\n", m.name, suffix, in, strconv.FormatFloat(value, 'f', -1, 64))
}

func (m *metrics) write(w io.Writer) error { return writeAll(w, "metrics", []byte(m.String())) }

// WriteMetrics writes a trial in Prometheus' text format, for a textfile collector: its verdict, its operations, its
// faults and what the checks found.
func WriteMetrics(w io.Writer, j Judged) error {
	s, m := newStory(j), &metrics{}
	scenario, seed := s.name()
	m.metric("trial_verdict", "gauge", "Which verdict the trial has.")
	m.sample(1, "", "scenario", scenario, "seed", fmt.Sprint(seed), "run", j.Run.RunID,
		"verdict", string(j.Report.Verdict))
	m.metric("trial_duration_seconds", "gauge", "Time from the first fact of the trial to the last.")
	m.sample(s.World.Last().Sub(s.start).Seconds(), "")
	s.measure(m)
	m.metric("fault_active", "gauge", "1 if the fault was injected and the end of its effect was not shown.")
	s.perFault(m, func(f world.Fault) bool {
		return f.Facts[history.StageInjected] != nil && f.Facts[history.StageConfirmedHealed] == nil
	})
	m.metric("fault_effect_confirmed", "gauge", "1 if the effect of the fault was shown.")
	s.perFault(m, func(f world.Fault) bool { return f.Facts[history.StageConfirmed] != nil })
	m.metric("invariant_violations_total", "counter", "Findings of each check.")
	for _, r := range j.Report.Results {
		m.sample(float64(len(r.Findings)), "", "invariant", r.Check, "verdict", string(r.Verdict))
	}
	return m.write(w)
}

func (s *story) perFault(m *metrics, is func(world.Fault) bool) {
	for _, f := range s.faults {
		value := 0.0
		if is(f) {
			value = 1
		}
		m.sample(value, "", "step", fmt.Sprint(f.Step), "fault", f.Name, "target", f.Node)
	}
}

// measure writes how many operations of each kind ended how, and how long the acknowledged ones took.
func (s *story) measure(m *metrics) {
	type key struct{ instance, f, stage string }
	took := map[key][]float64{}
	for _, op := range s.World.Operations() {
		if op.Sent == nil {
			continue
		}
		stage, lasted := history.StageUnknown, 0.0 // Only acknowledged ones are measured.
		if e := op.Answer; e != nil {
			stage, lasted = e.Op.Stage, e.Span.NotAfter.Sub(op.Sent.Span.NotBefore).Seconds()
		}
		k := key{op.Sent.Op.Instance, string(op.Sent.Op.F), string(stage)}
		took[k] = append(took[k], lasted)
	}
	keys := slices.SortedFunc(maps.Keys(took), func(a, b key) int {
		return slices.Compare([]string{a.instance, a.f, a.stage}, []string{b.instance, b.f, b.stage})
	})
	m.metric("ops_total", "counter", "Operations of the clients; unknown: no answer says whether it was done.")
	for _, k := range keys {
		m.sample(float64(len(took[k])), "", "instance", k.instance, "type", k.f, "result", k.stage)
	}
	m.metric("op_duration_seconds", "histogram", "How long acknowledged operations took.")
	for _, k := range keys {
		if k.stage != string(history.StageOK) {
			continue
		}
		all, sum := slices.Sorted(slices.Values(took[k])), 0.0
		for _, seconds := range all {
			sum += seconds
		}
		of := []string{"instance", k.instance, "type", k.f}
		for _, bound := range []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10} { // Seconds.
			within, _ := slices.BinarySearch(all, math.Nextafter(bound, 2*bound)) // As many as are at most the bound.
			m.sample(float64(within), "_bucket", append(of, "le", strconv.FormatFloat(bound, 'f', -1, 64))...)
		}
		m.sample(float64(len(all)), "_bucket", append(of, "le", "+Inf")...)
		m.sample(sum, "_sum", of...)
		m.sample(float64(len(all)), "_count", of...)
	}
}

// ProwStarted is started.json, and ProwFinished finished.json, by which TestGrid and Spyglass know a run (package
// metadata of GoogleCloudPlatform/testgrid). Times are whole seconds.
type ProwStarted struct {
	Timestamp  int64  `json:"timestamp"`
	RepoCommit string `json:"repo-commit,omitempty"`
}

// ProwFinished is finished.json.
type ProwFinished struct {
	Timestamp int64             `json:"timestamp"`
	Passed    bool              `json:"passed"`
	Result    string            `json:"result"` // SUCCESS, FAILURE or ABORTED.
	Metadata  map[string]string `json:"metadata"`
}

// ProwStarted is what is known when the run begins.
func (r Run) ProwStarted() ProwStarted { return ProwStarted{r.Started.Unix(), r.Commit} }

// ProwFinished is what is known at its end. Only PASS is a success: UNKNOWN must not look green.
func (r Run) ProwFinished(v check.Verdict, at time.Time, aborted bool) ProwFinished {
	f := ProwFinished{Timestamp: at.Unix(), Passed: v == check.Pass && !aborted, Result: "FAILURE",
		Metadata: map[string]string{"verdict": string(v), "scenario": r.Scenario, "seed": fmt.Sprint(r.Seed)}}
	if aborted {
		f.Result = "ABORTED"
	} else if f.Passed {
		f.Result = "SUCCESS"
	}
	maps.Copy(f.Metadata, r.Versions)
	return f
}
