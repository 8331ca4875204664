package report_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/world"
)

func chronicle(t interface{ Fatalf(string, ...any) }, x report.Judged, o report.Options) string {
	var b bytes.Buffer
	if err := report.WriteChronicle(&b, x, o); err != nil {
		t.Fatalf("%v", err)
	}
	return b.String()
}

// tales are the runs of which the golden files tell.
func tales() map[string]report.Judged {
	all := examples()
	all["disk"] = judged(historytest.Disk().History())
	all["disk-twice"] = judged(historytest.Disk(func(t *historytest.Trial) {
		t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 100, historytest.GlobalPath("pvc-0"), 20)
		t.Pod(history.VerbDeleted, "mysql-0", "Running", false, true, 19)
		t.Pod(history.VerbAdded, "mysql-0", "Pending", false, false, 19.5)
		t.Process("worker2", "mysqld", t.PodUID("mysql-0"), 4711, 21, 24)
	}).History())
	all["disk-pulled"] = judged(historytest.Disk(func(t *historytest.Trial) {
		t.Pod(history.VerbDeleted, "mysql-0", "Running", false, true, 19)
		t.Pod(history.VerbAdded, "mysql-0", "Pending", false, false, 19.2)
		t.Call("ControllerUnpublishVolume", "pvc-0", "worker", 19.5, 19.8, historytest.On())
		t.Pull("pvc-0", "worker", 100, 19.6, 19.7, nil)
		t.Call("ControllerPublishVolume", "pvc-0", "worker2", 19.8, 19.9, historytest.On("worker2"))
		t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 100, historytest.GlobalPath("pvc-0"), 20)
	}).History())
	return all
}

func TestChronicleGolden(t *testing.T) {
	for name, x := range tales() {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".chronicle", chronicle(t, x, report.Options{}))
		})
	}
}

// plainAndShort fails on what could harm a terminal, on a line too wide and on a page too long.
func plainAndShort(t interface {
	Helper()
	Fatalf(string, ...any)
}, out string) {
	t.Helper()
	plainText(t, out)
	if n := strings.Count(out, "\n"); n > 100 {
		t.Fatalf("a chronicle of %d lines", n)
	}
}

func TestChronicleLooks(t *testing.T) {
	for name, x := range tales() {
		out := chronicle(t, x, report.Options{})
		plainAndShort(t, out)
		if !strings.HasPrefix(out, string(x.Report.Verdict)+"  ") ||
			!strings.Contains(out, "\nverdict:   "+string(x.Report.Verdict)) {
			t.Errorf("%s: the verdict is not at both ends of\n%s", name, out)
		}
		bare := chronicle(t, x, report.Options{Color: true})
		for _, code := range []string{"\x1b[1;31m", "\x1b[1;32m", "\x1b[1;33m", "\x1b[0m"} {
			bare = strings.ReplaceAll(bare, code, "")
		}
		// A painted mark may end in spaces that are trimmed without colour.
		var lines []string
		for line := range strings.Lines(bare) {
			lines = append(lines, strings.TrimRight(line, " \n")+"\n")
		}
		if diff := cmp.Diff(out, strings.Join(lines, "")); diff != "" {
			t.Errorf("%s: colour changes more than colour: %s", name, diff)
		}
	}
	x := examples()["pass"]
	if err := report.WriteChronicle(full{}, x, report.Options{}); err == nil {
		t.Error("no error from a writer with no room")
	}
}

// TestChronicleSameBytes holds that nothing depends on the order of a map.
func TestChronicleSameBytes(t *testing.T) {
	for name, x := range tales() {
		first := chronicle(t, x, report.Options{})
		for range 5 {
			if diff := cmp.Diff(first, chronicle(t, x, report.Options{})); diff != "" {
				t.Fatalf("%s: %s", name, diff)
			}
		}
	}
}

// TestChronicleTorn tells of a history that ends anywhere.
func TestChronicleTorn(t *testing.T) {
	whole := historytest.Disk().History()
	for n := 0; n < len(whole.Events); n += 7 {
		h := history.History{Events: whole.Events[:n], Truncated: true}
		plainAndShort(t, chronicle(t, report.Judged{Run: someRun(), World: world.New(h),
			Report: check.Report{Verdict: check.Unknown}}, report.Options{}))
	}
}

// TestChronicleHostile drops, doubles, disorders and spoils facts, and puts evil where a chronicle takes text from.
func TestChronicleHostile(t *testing.T) {
	whole := tales()["disk-pulled"].World.History.Events
	rapid.Check(t, func(rt *rapid.T) {
		evil := rapid.OneOf(rapid.Just(hostile), rapid.String(), rapid.Just(strings.Repeat("x", 400)), rapid.Just(""))
		s := func(old string) string {
			if rapid.IntRange(0, 9).Draw(rt, "spoil") > 0 {
				return old
			}
			return evil.Draw(rt, "evil")
		}
		from := rapid.IntRange(0, len(whole)-1).Draw(rt, "from")
		events := append([]history.Event{whole[0]}, whole[from:min(from+400, len(whole))]...)
		events = append(events, rapid.SliceOfN(rapid.SampledFrom(whole), 0, 40).Draw(rt, "again")...)
		for i := range events {
			spoil(&events[i], s)
			if rapid.IntRange(0, 19).Draw(rt, "when") == 0 {
				events[i].Span = history.Span{NotBefore: history.Time(rapid.Int64().Draw(rt, "nb")),
					NotAfter: history.Time(rapid.Int64().Draw(rt, "na"))}
			}
		}
		findings := []check.Finding{
			{Subject: "volume pvc-1 " + s("x"), Sentence: s("It was.")}, {Subject: s("mysql-0"), Sentence: s("Lost.")},
		}
		x := report.Judged{Run: someRun(), World: world.New(history.History{Events: events}), Report: check.Report{
			Verdict: check.Fail,
			Results: []check.Result{{Check: s("mounts"), Verdict: check.Fail, Findings: findings}},
		}}
		plainAndShort(rt, chronicle(rt, x, report.Options{}))
	})
}

// spoil gives a fact copies of its payload with other names in them.
func spoil(e *history.Event, s func(string) string) {
	switch {
	case e.Pull != nil:
		p := *e.Pull
		p.Node, p.Boot = s(p.Node), s(p.Boot)
		e.Pull = &p
	case e.Mount != nil:
		m := *e.Mount
		m.Node, m.Path, m.Boot = s(m.Node), s(m.Path), s(m.Boot)
		e.Mount = &m
	case e.Object != nil:
		o := *e.Object
		o.Name, o.UID, o.Namespace = s(o.Name), s(o.UID), s(o.Namespace)
		if raw := s(""); raw != "" {
			o.Raw = json.RawMessage(raw)
		}
		e.Object = &o
	case e.CSI != nil:
		c := *e.CSI
		c.RPC, c.For, c.Code, c.Point, c.Node = s(c.RPC), s(c.For), s(c.Code), s(c.Point), s(c.Node)
		e.CSI = &c
	case e.Process != nil:
		p := *e.Process
		p.Node, p.PodUID = s(p.Node), s(p.PodUID)
		e.Process = &p
	case e.Fault != nil:
		f := *e.Fault
		f.Name, f.Node, f.Victim, f.Error = s(f.Name), s(f.Node), s(f.Victim), s(f.Error)
		e.Fault = &f
	case e.Op != nil:
		o := *e.Op
		o.Server, o.Error, o.Stage = s(o.Server), s(o.Error), history.Stage(s(string(o.Stage)))
		e.Op = &o
	}
}
