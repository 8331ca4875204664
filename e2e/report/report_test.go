package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/world"
)

var update = flag.Bool("update", false, "write the golden files anew")

func someRun() report.Run {
	return report.Run{
		Schema: report.RunSchemaVersion, RunID: "rmxyz12", Scenario: "smoke", Seed: 42,
		CommandLine: []string{"seatrial", "run", "smoke", "--seed", "42"}, Commit: "0123abc", Dirty: true,
		Started: time.Date(2026, 11, 21, 5, 40, 12, 0, time.UTC), NodeImageSource: "built",
		Versions: map[string]string{"kubernetes": "v1.37.0", "mysql": "9.7.4", "kind": "v0.33.0",
			"containerd": "2.3.4"},
		Host: report.Host{OS: "Debian GNU/Linux 12", Kernel: "6.18", Arch: "amd64", CPUs: 2, MemoryMiB: 23552,
			Engine: "docker 20.10.24"},
	}
}

func judged(h history.History) report.Judged {
	return report.Judged{Run: someRun(), World: world.New(h), Report: check.Run(h, check.All())}
}

const hostile = "\x1b[31mPASS\x1b[0m\r\nverdict:   PASS \u202e\u0007 \x00\xff </failure>"

// examples are the runs that the golden files show.
func examples() map[string]report.Judged {
	lost := historytest.Smoke().History()
	for i := range lost.Events {
		if r := lost.Events[i].Rows; r != nil && r.Instance == "mysql-1" && r.Chunk == 2 {
			r.Rows = r.Rows[2:]
		}
	}
	twice := historytest.Smoke(func(t *historytest.Trial) {
		id := t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 100, "/mnt/by-hand", 20)
		t.Unmount("worker2", historytest.FirstBoot, id, 21)
	}).History()
	sabotaged := historytest.Smoke().History()
	sabotaged.Events = slices.DeleteFunc(sabotaged.Events, func(e history.Event) bool {
		return e.Fault != nil && e.Fault.Step == 6 && e.Fault.Stage == history.StageConfirmedHealed ||
			e.Checksum != nil && e.Checksum.Step == 8
	})
	for i := range sabotaged.Events {
		if f := sabotaged.Events[i].Fault; f != nil && f.Step == 6 && f.Stage == history.StageConfirmed {
			f.Stage, f.Error = history.StageFaultFailed, "confirm node-reboot: "+hostile
		}
	}
	torn := historytest.Smoke().History()
	torn.Events, torn.Truncated = torn.Events[:1200], true
	named := someRun()
	named.CommandLine = []string{"seatrial", "run", "--plan", "it's mine.json"}
	empty := judged(history.History{})
	empty.Run = report.Run{}
	all := map[string]report.Judged{
		"pass": judged(historytest.Smoke().History()), "fail-lost-row": judged(lost), "fail-two-nodes": judged(twice),
		"unknown-not-confirmed": judged(sabotaged), "unknown-torn": judged(torn), "unknown-empty": empty,
	}
	withPlan := all["pass"]
	withPlan.Run = named
	all["pass-plan-file"] = withPlan
	return all
}

func text(t testing.TB, x report.Judged, o report.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.WriteText(&b, x, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCommandThatReproduces(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"run smoke --keep":                   "seatrial run smoke --seed 42",
		"reproduce smoke --times 5":          "seatrial reproduce smoke --seed 42",
		"run --plan p.yaml":                  "seatrial run --plan p.yaml",
		"run smoke --workload=w.yaml":        "seatrial run smoke --workload=w.yaml --seed 42",
		"run smoke --kubeconfig k --runs d":  "seatrial run smoke --seed 42 --kubeconfig k",
		"run smoke --context=c --seed 42":    "seatrial run smoke --seed 42 --context=c",
		"certify run --context c -n shop":    "seatrial run smoke --seed 42 --context c -n shop",
		"reproduce a smoke --kubeconfig k":   "seatrial reproduce smoke --seed 42 --kubeconfig k",
		"replay runs/latest --kubeconfig k":  "seatrial replay runs/latest --kubeconfig k",
		"run --case c.yaml --context c":      "seatrial run --case c.yaml --context c --seed 42",
		"run --case c.yaml --seed 42 --keep": "seatrial run --case c.yaml --seed 42 --keep",
	} {
		x := judged(historytest.Smoke().History())
		x.Run.CommandLine = append([]string{"/usr/bin/seatrial"}, strings.Fields(args)...)
		if got := report.Summarize(x).Command; got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; look at it, and write it anew with -update if it is right:\n%s", path, diff)
	}
}

// TestWhyTheRecordBrokeOff is told where a reader looks first: of a trial whose disk was full, the history cannot say.
func TestWhyTheRecordBrokeOff(t *testing.T) {
	x := examples()["unknown-torn"]
	x.Run.CutShort = "record history: write history.jsonl.zst: no space left on device"
	got := text(t, x, report.Options{})
	_, because, ok := strings.Cut(got, "because: ")
	if !ok || !strings.Contains(strings.Join(strings.Fields(because), " "), x.Run.CutShort) {
		t.Errorf("the report ends with %q", because)
	}
}

func TestGolden(t *testing.T) {
	for name, x := range examples() {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".txt", text(t, x, report.Options{}))
			var junit, verdict bytes.Buffer
			if err := report.WriteJUnit(&junit, x); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".xml", junit.String())
			if err := report.WriteVerdict(&verdict, x.Report); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", verdict.String())
		})
	}
}

// TestLastLines holds that a report ends in the verdict, the reason and the command, whatever it is about.
func TestLastLines(t *testing.T) {
	for name, x := range examples() {
		out := text(t, x, report.Options{})
		at := strings.LastIndex(out, "\n\n")
		end := strings.Split(strings.TrimSpace(out[at:]), "\n")
		if !strings.HasPrefix(end[0], "verdict:   "+string(x.Report.Verdict)) || !strings.HasPrefix(end[1],
			"because:   ") ||
			!strings.HasPrefix(end[len(end)-1], "reproduce: ") {
			t.Errorf("%s: the report ends in %q", name, end)
		}
		if !strings.HasPrefix(out, string(x.Report.Verdict)+"  ") {
			t.Errorf("%s: the report begins with %q", name, out[:40])
		}
	}
}

// plainText fails on anything that could move a cursor, colour a terminal, or be too wide for it.
func plainText(t interface {
	Helper()
	Fatalf(string, ...any)
}, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Fatalf("a line of %d characters: %q", n, line)
		}
		for _, r := range line {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e || r == utf8.RuneError {
				t.Fatalf("%U in %q", r, line)
			}
		}
	}
}

func TestPlainAndNarrow(t *testing.T) {
	for _, x := range examples() {
		plainText(t, text(t, x, report.Options{}))
	}
}

// TestHostileStrings puts what an attacker would like to print wherever a report takes text from.
func TestHostileStrings(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		evil := rapid.OneOf(rapid.Just(hostile), rapid.String(), rapid.Just(strings.Repeat("x", 400)))
		s := func(name string) string { return evil.Draw(rt, name) }
		x := report.Judged{World: world.New(history.History{Events: historytest.Smoke().History().Events[:300]})}
		x.Run = report.Run{RunID: s("id"), Scenario: s("scenario"), CommandLine: []string{s("arg0"), "--plan",
			s("arg")},
			Commit: s("commit"), NodeImageSource: s("source"), Versions: map[string]string{s("key"): s("version")},
			Host: report.Host{OS: s("os"), Engine: s("engine")}}
		for i := range x.World.History.Events {
			e := &x.World.History.Events[i]
			switch {
			case e.Volume != nil:
				e.Volume.PV, e.Volume.Identity.BackingFile = s("pv"), s("file")
			case e.Mount != nil:
				e.Mount.Path, e.Mount.Node = s("path"), s("node")
			case e.Fault != nil:
				e.Fault.Error, e.Fault.Node, e.Fault.Evidence = s("error"), s("victim"), []string{s("evidence")}
			case e.Checksum != nil:
				e.Checksum.Table, e.Checksum.RowHash = s("table"), s("hash")
			}
		}
		f := check.Finding{Sentence: s("sentence"), Subject: s("subject"), Node: s("node"),
			Faults: []string{s("fault")},
			Events: []int64{1, 2, 3, 9, 12}}
		x.Report = check.Report{Verdict: check.Fail, Results: []check.Result{{
			Check: s("check"), Promise: s("promise"), Unit: s("unit"), Verdict: check.Fail,
			Findings: []check.Finding{f},
			Reasons:  []string{s("reason")}, Notes: []string{s("note")},
		}}}
		out := text(t, x, report.Options{})
		plainText(rt, out)
		if !strings.HasPrefix(out, "FAIL  ") {
			rt.Fatalf("the report begins with %.40q", out)
		}
		parseJUnit(rt, x)
	})
}

// junit is what dashboards see.
type junit struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Suite    struct {
		Cases []struct {
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func parseJUnit(t interface{ Fatalf(string, ...any) }, x report.Judged) junit {
	var b bytes.Buffer
	if err := report.WriteJUnit(&b, x); err != nil {
		t.Fatalf("%v", err)
	}
	var got junit
	if err := xml.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, b.String())
	}
	return got
}

// TestJUnitIsNeverGreenByMistake holds that a case is green only where the check passed.
func TestJUnitIsNeverGreenByMistake(t *testing.T) {
	all := examples()
	nothing := all["pass"]
	nothing.Report = check.Report{Verdict: check.Unknown}
	all["no checks"] = nothing
	strange := all["pass"]
	strange.Report = check.Report{Verdict: "green", Results: []check.Result{{Check: "x", Verdict: "green"}}}
	all["strange verdict"] = strange
	for name, x := range all {
		got := parseJUnit(t, x)
		for i, c := range got.Suite.Cases {
			green := c.Failure == nil && c.Error == nil
			if want := i < len(x.Report.Results) && x.Report.Results[i].Verdict == check.Pass; green != want {
				t.Errorf("%s: case %s is green: %v, want %v", name, c.Name, green, want)
			}
		}
		if allGreen := got.Failures+got.Errors == 0; allGreen != (x.Report.Verdict == check.Pass) ||
			got.Tests != len(got.Suite.Cases) {
			t.Errorf("%s: %+v for verdict %s", name, got, x.Report.Verdict)
		}
	}
}

// TestSameBytes holds that a run judged and reported again gives the same bytes.
func TestSameBytes(t *testing.T) {
	render := func(h history.History) string {
		x := judged(h)
		var b bytes.Buffer
		for _, err := range []error{
			report.WriteVerdict(&b, x.Report), report.WriteText(&b, x, report.Options{}),
			report.WriteJUnit(&b, x),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	h := examples()["fail-lost-row"].World.History
	first := render(h)
	var stored bytes.Buffer
	for _, e := range h.Events {
		if err := history.Append(&stored, e); err != nil {
			t.Fatal(err)
		}
	}
	again, err := history.Read(&stored)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if diff := cmp.Diff(first, render(again)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestColor(t *testing.T) {
	for name, x := range examples() {
		colored := text(t, x, report.Options{Color: true})
		if !strings.Contains(colored, "\x1b[") {
			t.Errorf("%s: no colour though it was asked for", name)
		}
		bare := colored
		for _, code := range []string{"\x1b[1;31m", "\x1b[1;32m", "\x1b[1;33m", "\x1b[0m"} {
			bare = strings.ReplaceAll(bare, code, "")
		}
		if diff := cmp.Diff(text(t, x, report.Options{}), bare); diff != "" {
			t.Errorf("%s: colour changes more than colour: %s", name, diff)
		}
	}
}

// full is a writer with no room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestFullDisk(t *testing.T) {
	x := examples()["pass"]
	for name, err := range map[string]error{
		"text":    report.WriteText(full{}, x, report.Options{}),
		"junit":   report.WriteJUnit(full{}, x),
		"verdict": report.WriteVerdict(full{}, x.Report),
	} {
		if err == nil {
			t.Errorf("%s: no error from a writer with no room", name)
		}
	}
}

// TestRunRoundTrip holds that run.json can be read back.
func TestRunRoundTrip(t *testing.T) {
	data, err := json.Marshal(someRun())
	if err != nil {
		t.Fatal(err)
	}
	var back report.Run
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(someRun(), back); diff != "" {
		t.Error(diff)
	}
}

// TestWhatIsLostComesFirst: what the workload came to in the end is proven earlier, and follows from it.
func TestWhatIsLostComesFirst(t *testing.T) {
	finding := func(name, sentence string, at history.Time) check.Result {
		return check.Result{Check: name, Verdict: check.Fail, Findings: []check.Finding{
			{Sentence: sentence, Span: history.At(at)}}}
	}
	settle, sync := finding("settle", "mysql-0 was not Ready.", 5), finding("in-sync", "mysql-0 lacks some.", 7)
	for _, tt := range []struct {
		results []check.Result
		want    string
	}{
		{[]check.Result{finding("acknowledged", "A row is lost.", 9), sync, settle}, "A row is lost."},
		{[]check.Result{finding("acknowledged", "A row is lost.", 9), finding("mounts", "It was on two nodes.", 8)},
			"It was on two nodes."},
		{[]check.Result{sync, settle}, "mysql-0 was not Ready."},
	} {
		j := report.Judged{World: world.New(history.History{}), Report: check.Report{Verdict: check.Fail,
			Results: tt.results}}
		if got := report.Summarize(j); got.Why != tt.want || got.First.Sentence != tt.want {
			t.Errorf("%q, want %q", got.Why, tt.want)
		}
	}
}
