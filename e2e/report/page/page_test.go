package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/world"
)

// recorded are the run directories that the repository keeps.
func recorded(t testing.TB) map[string]report.Judged {
	t.Helper()
	files, err := filepath.Glob("../../../fixtures/recorded/*/" + rundir.HistoryFile)
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded run: %v", err)
	}
	all := map[string]report.Judged{}
	for _, file := range files {
		path := filepath.Dir(file)
		all[filepath.Base(path)] = judged(t, path)
	}
	return all
}

func judged(t testing.TB, path string) report.Judged {
	t.Helper()
	dir, err := rundir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := dir.ReadHistory()
	if err != nil {
		t.Fatal(err)
	}
	var run report.Run
	if err := dir.ReadJSON(rundir.RunFile, &run); err != nil {
		t.Fatal(err)
	}
	w := world.New(h)
	return report.Judged{Run: run, World: w, Report: check.Judge(w, check.All())}
}

func write(t testing.TB, j report.Judged) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, j); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestEveryRecordedRun holds what every page must have, and that the same run gives the same bytes.
func TestEveryRecordedRun(t *testing.T) {
	for name, j := range recorded(t) {
		t.Run(name, func(t *testing.T) {
			page := write(t, j)
			if again := write(t, j); again != page {
				t.Error("a second page of the same run differs")
			}
			if len(page) > 5<<20 {
				t.Errorf("the page has %d bytes, more than 5 MiB", len(page))
			}
			summary := report.Summarize(j)
			for _, want := range []string{string(summary.Verdict), summary.Scenario, "Content-Security-Policy",
				`<pre>`, fmt.Sprintf("--seed %d", summary.Seed)} {
				if !strings.Contains(page, want) {
					t.Errorf("the page does not have %q", want)
				}
			}
			asks := regexp.MustCompile(`(?i)(src|href)\s*=|@import|url\((?:[^#])|<link`)
			if found := asks.FindString(page); found != "" {
				t.Errorf("the page asks for something from elsewhere: %q", found)
			}
			var d drawing
			data := between(t, page, `<script type="application/json" id="data">`, `</script>`)
			if err := json.Unmarshal([]byte(data), &d); err != nil {
				t.Fatalf("the data of the page: %v", err)
			}
			if d.To <= d.From || len(d.Nodes) == 0 {
				t.Errorf("the drawing is empty: %+v", d)
			}
		})
	}
}

func between(t testing.TB, text, from, to string) string {
	t.Helper()
	_, text, ok := strings.Cut(text, from)
	text, _, found := strings.Cut(text, to)
	if !ok || !found {
		t.Fatalf("nothing between %q and %q", from, to)
	}
	return text
}

// TestARowThatAFailoverLost is drawn as lost with the database that acknowledged it, though that one still has it.
func TestARowThatAFailoverLost(t *testing.T) {
	lost := map[string]int{}
	for _, i := range draw(judged(t, "../../../fixtures/recorded/selftest-lost-in-failover-31-fail")).Instances {
		if i.Clients != nil {
			lost[i.Name] = i.Clients.LostRows
		}
	}
	if want := map[string]int{"mysql-0": 1, "mysql-1": 0}; !maps.Equal(lost, want) {
		t.Errorf("rows lost: %v, want %v", lost, want)
	}
}

// TestRolesInAGroup holds who took writes when, in a run in which the primary was cut off from the control plane.
func TestRolesInAGroup(t *testing.T) {
	roles := map[string]string{}
	for _, i := range draw(judged(t, "../../../fixtures/recorded/topology-semisync-primary-cut-4-pass")).Instances {
		var kinds []string
		for n, b := range i.Roles {
			kinds = append(kinds, b.Kind)
			if b.B < b.A || n > 0 && b.A < i.Roles[n-1].B || b.Text == "" || len(b.Facts) == 0 {
				t.Errorf("%s: a bar from %v to %v, %q, facts %v", i.Name, b.A, b.B, b.Text, b.Facts)
			}
		}
		roles[i.Name] = strings.Join(kinds, " ")
		if len(i.Acts) == 0 || !strings.HasPrefix(i.Acts[0].Text, "promoter: ") {
			t.Errorf("%s: acts %+v, want one of the promoter", i.Name, i.Acts)
		}
	}
	want := map[string]string{ // The clone that it is replaced by is refused while it takes no writes.
		"mysql-0": "follows writes apart follows writes apart follows", "mysql-1": "follows",
		"mysql-2": "follows writes",
	}
	if !maps.Equal(roles, want) {
		t.Errorf("roles %v, want %v", roles, want)
	}
}

// TestTheWorstIsFirst: who opens a page that is not PASS sees what failed before what held.
func TestTheWorstIsFirst(t *testing.T) {
	page := write(t, recorded(t)["k8s-61832-5-fail"])
	at := 0
	for _, want := range []string{"<b>rows</b>", "<b>witness</b>", "<b>checksums</b>", "<h2>Findings</h2>",
		"<h2>Not shown</h2>"} {
		next := strings.Index(page[at:], want)
		if next < 0 {
			t.Fatalf("%s is not after what was wanted before it", want)
		}
		at += next
	}
}

// TestDoubleMount holds the drawing against what the checks found in a run with two databases on five volumes.
// TestRowsOfAGroupThatAllWriteTo holds that a passing trial of it lost no row.
func TestRowsOfAGroupThatAllWriteTo(t *testing.T) {
	rows := 0
	for _, i := range draw(judged(t, "../../../fixtures/recorded/topology-group-multi-member-cut-4-pass")).Instances {
		rows += i.Clients.Rows
		if !i.Clients.Judged || i.Clients.LostRows > 0 {
			t.Errorf("%s: read back: %v, %d rows lost", i.Name, i.Clients.Judged, i.Clients.LostRows)
		}
	}
	if rows == 0 {
		t.Error("no row was acknowledged")
	}
}

func TestDoubleMount(t *testing.T) {
	j := judged(t, "../../../fixtures/recorded/k8s-61832-5-fail")
	d := draw(j)
	overlaps, kept := 0, 0
	for _, i := range d.Instances {
		for _, v := range i.Volumes {
			overlaps += len(v.Overlaps)
			if len(v.Rows) != 2 {
				t.Errorf("volume %s has %d rows, want one for each of the two nodes that had it", v.Name, len(v.Rows))
			}
		}
		kept += i.Clients.Rows - i.Clients.LostRows
	}
	for _, r := range j.Report.Results {
		switch {
		case r.Check == "mounts" && overlaps != len(r.Findings):
			t.Errorf("%d overlaps are drawn, the check found %d", overlaps, len(r.Findings))
		case r.Check == "rows" && kept != r.Evidence:
			t.Errorf("%d rows are drawn as kept, the check found %d", kept, r.Evidence)
		}
	}
	if d.Focus == nil {
		t.Error("the page does not begin at the violation")
	}
	for _, c := range j.Report.Causes() {
		for _, f := range c.Found {
			for _, id := range f.Events {
				if d.Facts[id] == nil {
					t.Errorf("fact %d, which proves a finding of %s, is not in the page", id, f.Check)
				}
			}
		}
	}
}

// TestWhatKubeletsSay puts a line of a log into the row of its volume and node.
func TestWhatKubeletsSay(t *testing.T) {
	j := judged(t, "../../../fixtures/recorded/k8s-61832-5-fail")
	v := j.World.Volumes().All[0]
	node := v.Mounts[0].Node
	j.Kubelets = []report.LogLine{{Node: node, Volume: v.Name, At: 2500 * time.Millisecond, Text: "mounted"}}
	var said []bar
	for _, i := range draw(j).Instances {
		for _, lane := range i.Volumes {
			for _, row := range lane.Rows {
				if len(row.Said) > 0 && (lane.Name != v.Name || row.Node != node) {
					t.Errorf("the line is in the row of %s on %s", lane.Name, row.Node)
				}
				said = append(said, row.Said...)
			}
		}
	}
	if d := cmp.Diff([]bar{{A: 2500, B: 2500, Text: "kubelet: mounted"}}, said, cmp.AllowUnexported(bar{})); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
}

// TestAttachedByKubelets draws what the driver's table says where there is no VolumeAttachment.
func TestAttachedByKubelets(t *testing.T) {
	d := draw(judged(t, "../../../fixtures/recorded/kubelet-attach-twin-5-fail"))
	for _, i := range d.Instances {
		for _, row := range i.Volumes[0].Rows {
			if len(row.Attached) != 1 || row.Attached[0].Open || row.Attached[0].A > row.Mounted[0].A {
				t.Errorf("%s on %s: attached %+v, mounted %+v", i.Name, row.Node, row.Attached, row.Mounted)
			}
		}
	}
	if len(d.Instances) == 0 {
		t.Error("no instance is drawn")
	}
}

// TestVolumeManagers draws what a kubelet says of its volumes until it says something else or cannot be asked.
func TestVolumeManagers(t *testing.T) {
	const a, b = "kubernetes.io/csi:a", "kubernetes.io/csi:b"
	var h history.History
	says := func(at time.Duration, m history.VolumeManager) {
		h.Events = append(h.Events, history.Event{ID: int64(len(h.Events) + 1), Kind: history.KindVolumeManager,
			Span: history.At(history.Time(at)), VolumeManager: &m})
	}
	says(0, history.VolumeManager{Node: "w", Plugin: a, Desired: 1, Failed: 1})
	says(time.Second, history.VolumeManager{Node: "w", Plugin: b, Desired: 2, Actual: 2})
	says(2*time.Second, history.VolumeManager{Node: "v", Plugin: a, Desired: 1, Actual: 1})
	says(3*time.Second, history.VolumeManager{Node: "w", Plugin: a})
	says(4*time.Second, history.VolumeManager{Node: "w", Error: "refused"})
	says(5*time.Second, history.VolumeManager{Node: "w", Plugin: b, Actual: 2})
	says(6*time.Second, history.VolumeManager{Node: "v", Error: "refused"})
	w := world.New(h)
	d := drawer{world: w, start: w.Begin(), end: w.Last()}
	d.To = d.ms(d.end)
	want := []bar{
		{A: 0, B: 3000, Kind: "off", Text: "kubelet of w, " + a + ": 1 volume desired, 0 actual; 1 operation failed " +
			"since it started", Facts: []int64{1}},
		{A: 1000, B: 4000, Kind: "as-desired", Text: "kubelet of w, " + b + ": 2 volumes desired, 2 actual",
			Facts: []int64{2}},
		{A: 5000, B: 6000, Open: true, Kind: "off", Text: "kubelet of w, " + b + ": 0 volumes desired, 2 actual",
			Facts: []int64{6}},
	}
	if diff := cmp.Diff(want, d.managed("w")); diff != "" {
		t.Errorf("bars (-want +got):\n%s", diff)
	}
}

// TestMarksPointAtTheirFacts holds the bars of faults against the facts that they name.
func TestMarksPointAtTheirFacts(t *testing.T) {
	j := judged(t, "../../../fixtures/recorded/smoke-861908-pass")
	d, n := draw(j), 0
	for _, f := range d.Faults {
		for _, b := range f.Stages {
			e := d.event(b.Facts[0])
			if e == nil || e.Fault == nil || string(e.Fault.Stage) != b.Kind || d.ms(e.Span.NotBefore) != b.A {
				t.Errorf("stage %s of %s points at %+v", b.Kind, f.Name, e)
			}
			n++
		}
	}
	if n < 15 {
		t.Errorf("%d stages are drawn, want at least 5 for each of 3 faults", n)
	}
}

// TestHostileNames shows that nothing from a history becomes markup.
func TestHostileNames(t *testing.T) {
	j := judged(t, "../../../fixtures/recorded/selftest-deleted-row-42-fail")
	const hostile = `</script><script>alert(1)</script><img src=x onerror=alert(1)>"'` + "\u2028{{.}}"
	j.Run.RunID, j.Logs = hostile, []string{hostile}
	v := j.World.Volumes().All[0]
	j.Kubelets = []report.LogLine{{Node: v.Mounts[0].Node, Volume: v.Name, Text: hostile}}
	j.Report.Results[0].Findings = []check.Finding{{Subject: hostile, Sentence: hostile, Events: []int64{1}}}
	for i := range j.World.Events {
		if o := j.World.Events[i].Observer; o != nil {
			o.State, o.Name = history.ObserverGap, hostile
		}
	}
	page := write(t, j)
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("the page has %d scripts, want its data and its own", n)
	}
	if strings.Contains(page, "<img") || strings.Contains(page, `"'{{`) {
		t.Error("the hostile name is in the page as it stands")
	}
	if dir := os.Getenv("SEATRIAL_PAGES"); dir != "" { // `make pages` opens it in Chromium.
		if err := os.WriteFile(filepath.Join(dir, "hostile.html"), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// million is a run of 1,000,000 answers.
func million(t testing.TB) report.Judged {
	t.Helper()
	j := judged(t, "../../../fixtures/recorded/smoke-861908-pass")
	last := j.World.Events[len(j.World.Events)-1]
	for i := range 2_000_000 {
		at := last.Span.NotAfter.Add(time.Duration(i) * time.Millisecond)
		op := &history.Op{
			Client: 9, Number: int64(i/2 + 1), F: history.OpInsert, Instance: "mysql-0", Seq: int64(i / 2),
			Stage: history.StageInvoke}
		if i%2 == 1 {
			op.Stage = history.StageOK
		}
		j.World.Events = append(j.World.Events, history.Event{ID: last.ID + int64(i) + 1, Kind: history.KindOp,
			Span: history.At(at), Op: op})
	}
	j.World = world.New(j.World.History)
	return j
}

// TestMillionOperations holds that the page of 1,000,000 operations has at most 5 MB. `make pages` opens it in
// Chromium.
func TestMillionOperations(t *testing.T) {
	dir := os.Getenv("SEATRIAL_PAGES")
	if dir == "" {
		t.Skip("NOT RUN: `make pages` runs it")
	}
	page := write(t, million(t))
	if len(page) > 5_000_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	if err := os.WriteFile(filepath.Join(dir, "million.html"), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkMillionOperations draws a run of 1,000,000 answers.
func BenchmarkMillionOperations(b *testing.B) {
	h := million(b).World.History
	j := judged(b, "../../../fixtures/recorded/smoke-861908-pass")
	for b.Loop() {
		j.World = world.New(h)
		b.ReportMetric(float64(len(write(b, j)))/(1<<20), "MiB")
	}
}
