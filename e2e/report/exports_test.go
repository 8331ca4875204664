package report_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// TestExports holds, for each recorded run and the runs of the golden files, what Prometheus and Grafana need, and for
// the recorded ones what Perfetto needs.
func TestExports(t *testing.T) {
	do := func(t *testing.T, j report.Judged) {
		t.Run("metrics", func(t *testing.T) { checkMetrics(t, j) })
		t.Run("annotations", func(t *testing.T) { checkAnnotations(t, j) })
	}
	files, err := filepath.Glob("../../fixtures/recorded/*/history.jsonl.zst")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recorded runs: %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		t.Run(name, func(t *testing.T) {
			dir, err := rundir.Open(filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			h, err := dir.ReadHistory()
			if err != nil {
				t.Fatal(err)
			}
			j := judged(h)
			do(t, j)
			t.Run("trace", func(t *testing.T) { checkTrace(t, name, j) })
		})
	}
	for name, j := range examples() {
		t.Run(name, func(t *testing.T) { do(t, j) })
	}
}

// families reads metrics as Prometheus does, and holds them to the rules of `promtool check metrics`.
func families(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in:\n%.400s", err, text)
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	return all
}

// checkMetrics fails unless Prometheus can read the metrics, and they have the operations, faults and findings of the
// run.
func checkMetrics(t *testing.T, j report.Judged) {
	var out bytes.Buffer
	if err := report.WriteMetrics(&out, j); err != nil {
		t.Fatal(err)
	}
	all := families(t, out.String())
	sum := func(name string, of func(*dto.Metric) float64) float64 {
		total := 0.0
		for _, m := range all[name].GetMetric() {
			total += of(m)
		}
		return total
	}
	invoked, findings, acked := 0, 0, 0.0
	for _, e := range j.World.Of(history.KindOp) {
		if e.Op.Stage == history.StageInvoke {
			invoked++
		}
	}
	for _, r := range j.Report.Results {
		findings += len(r.Findings)
	}
	counter := func(m *dto.Metric) float64 { return m.GetCounter().GetValue() }
	if got := sum("seatrial_ops_total", counter); got != float64(invoked) {
		t.Errorf("%v operations, want %d", got, invoked)
	}
	if got := sum("seatrial_invariant_violations_total", counter); got != float64(findings) {
		t.Errorf("%v violations, want %d", got, findings)
	}
	for _, m := range all["seatrial_ops_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "result" && l.GetValue() == string(history.StageOK) {
				acked += counter(m)
			}
		}
	}
	for _, m := range all["seatrial_op_duration_seconds"].GetMetric() {
		before := uint64(0)
		for _, b := range m.GetHistogram().GetBucket() {
			if b.GetCumulativeCount() < before {
				t.Errorf("bucket %v has %d after %d", b.GetUpperBound(), b.GetCumulativeCount(), before)
			}
			before = b.GetCumulativeCount()
		}
		if before != m.GetHistogram().GetSampleCount() {
			t.Errorf("the last bucket has %d of %d", before, m.GetHistogram().GetSampleCount())
		}
	}
	got := sum("seatrial_op_duration_seconds", func(m *dto.Metric) float64 {
		return float64(m.GetHistogram().GetSampleCount())
	})
	if got != acked {
		t.Errorf("%v latencies of %v acknowledged operations", got, acked)
	}
	verdict := all["seatrial_trial_verdict"].GetMetric()[0].GetLabel()
	if last := verdict[len(verdict)-1]; last.GetValue() != string(j.Report.Verdict) {
		t.Errorf("verdict %v, want %s", last, j.Report.Verdict)
	}
	gauge := func(m *dto.Metric) float64 { return m.GetGauge().GetValue() }
	if n := sum("seatrial_fault_active", gauge); j.Report.Verdict == check.Pass && n != 0 {
		t.Errorf("%v faults are active after a PASS", n)
	}
	planned := len(all["seatrial_fault_effect_confirmed"].GetMetric())
	if n := sum("seatrial_fault_effect_confirmed", gauge); j.Report.Verdict == check.Pass && n != float64(planned) {
		t.Errorf("%v of %d faults were shown in a PASS", n, planned)
	}
}

// TestBuckets counts a latency in the first bucket that it fits, bounds included.
func TestBuckets(t *testing.T) {
	at := func(id int64, ms int, stage history.Stage) history.Event {
		return history.Event{ID: id, Kind: history.KindOp,
			Span: history.At(history.Time(ms) * history.Time(time.Millisecond)),
			Op:   &history.Op{Client: 1, Number: id / 2, F: history.OpInsert, Stage: stage, Instance: "mysql-0"}}
	}
	j := judged(history.History{Events: []history.Event{
		at(2, 0, history.StageInvoke), at(3, 5, history.StageOK), at(4, 10, history.StageInvoke),
		at(5, 16, history.StageOK), at(6, 20, history.StageInvoke), at(7, 20_020, history.StageOK),
		at(8, 30_000, history.StageInvoke),
	}})
	var out bytes.Buffer
	if err := report.WriteMetrics(&out, j); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`duration_seconds_bucket{instance="mysql-0",type="insert",le="0.0025"} 0`, `le="0.005"} 1`, `le="0.01"} 2`,
		`le="10"} 2`, `le="+Inf"} 3`, `result="ok"} 3`, `result="unknown"} 1`,
	} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
}

func TestMetricsOfANight(t *testing.T) {
	var out bytes.Buffer
	s := nightly.Merge(nightly.List{Build: nightly.Build{Commit: `a"b\` + hostile, Kubernetes: "v1.37.0"}}, nil)
	s.Ended = time.Unix(1_764_000_000, 0)
	if err := report.WriteNightProm(&out, s); err != nil {
		t.Fatal(err)
	}
	all := families(t, out.String())
	if got := len(all["seatrial_nightly_units"].GetMetric()); got != len(nightly.Kinds()) {
		t.Errorf("%d kinds", got)
	}
	ended := all["seatrial_nightly_ended_timestamp_seconds"].GetMetric()[0].GetGauge().GetValue()
	if ended != 1_764_000_000 {
		t.Errorf("ended at %v", ended)
	}
}

// checkAnnotations fails unless there is an annotation for the trial, each injected fault and each finding, with the
// fields that Grafana's POST /api/annotations takes and its times, in milliseconds, within the run.
func checkAnnotations(t *testing.T, j report.Judged) {
	var out bytes.Buffer
	if err := report.WriteAnnotations(&out, j); err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Time    int64    `json:"time"`
		TimeEnd int64    `json:"timeEnd"`
		Tags    []string `json:"tags"`
		Text    string   `json:"text"`
	}
	d := json.NewDecoder(&out)
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	begin := j.Run.Started.UnixMilli()
	end := j.Run.Started.Add(j.World.Last().Sub(j.World.Begin())).UnixMilli()
	for _, a := range all {
		if a.Time < begin || a.TimeEnd < a.Time || a.TimeEnd > end || a.Text == "" || len(a.Tags) != 4 {
			t.Errorf("%+v in a run from %d to %d", a, begin, end)
		}
		kinds[a.Tags[1]]++
	}
	want := map[string]int{"trial": 1}
	for _, r := range j.Report.Results {
		if n := len(r.Findings); n > 0 {
			want["finding"] += n
		}
	}
	injected := map[int]bool{}
	for _, e := range j.World.Of(history.KindFault) {
		if e.Fault.Stage == history.StageInjected {
			injected[e.Fault.Step] = true
		}
	}
	if len(injected) > 0 {
		want["fault"] = len(injected)
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

// TestProw holds the fields of started.json and finished.json, with integers as times.
func TestProw(t *testing.T) {
	run := someRun()
	started, err := json.Marshal(run.ProwStarted())
	if want := `{"timestamp":1795239612,"repo-commit":"0123abc"}`; err != nil || string(started) != want {
		t.Errorf("started.json is %s (%v), want %s", started, err, want)
	}
	for _, tt := range []struct {
		verdict check.Verdict
		aborted bool
		want    string
	}{
		{check.Pass, false, `"passed":true,"result":"SUCCESS"`},
		{check.Fail, false, `"passed":false,"result":"FAILURE"`},
		{check.Unknown, false, `"passed":false,"result":"FAILURE"`},
		{check.Unknown, true, `"passed":false,"result":"ABORTED"`},
		{check.Pass, true, `"passed":false,"result":"ABORTED"`},
	} {
		got, err := json.Marshal(run.ProwFinished(tt.verdict, run.Started.Add(90*time.Second), tt.aborted))
		if err != nil || !strings.HasPrefix(string(got), `{"timestamp":1795239702,`+tt.want+`,"metadata":{`) ||
			!strings.Contains(string(got), `"verdict":"`+string(tt.verdict)+`"`) ||
			!strings.Contains(string(got), `"kubernetes":"v1.37.0"`) {
			t.Errorf("%s, aborted %t: %s (%v)", tt.verdict, tt.aborted, got, err)
		}
	}
}
