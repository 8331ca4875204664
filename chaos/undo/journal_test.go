package undo_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
)

// disk is a file in memory: synced is how much of it would survive a crash.
type disk struct {
	bytes.Buffer
	synced             int
	writeErr, syncFail error
}

func (d *disk) Write(p []byte) (int, error) {
	if d.writeErr != nil {
		n, _ := d.Buffer.Write(p[:len(p)/2])
		return n, d.writeErr
	}
	return d.Buffer.Write(p)
}

func (d *disk) Sync() error {
	if d.syncFail != nil {
		return d.syncFail
	}
	d.synced = d.Len()
	return nil
}

func entry(step int, stage history.FaultStage) undo.Entry {
	return undo.Entry{
		Schema: 1, Owner: undo.Owner{Run: "r-1", Step: step}, Fault: "node-partition", Node: "worker",
		Stage: stage, At: 5,
	}
}

func appendTo(j *undo.Journal, e undo.Entry) error {
	f := history.Fault{Step: e.Step, Name: e.Fault, Node: e.Node, Stage: e.Stage, Error: e.Error}
	return j.Append(e.Run, e.At, f)
}

func TestAnErrorOfAnyLengthFitsALine(t *testing.T) {
	d := &disk{}
	e := entry(1, history.StageFaultFailed)
	e.Error = strings.Repeat("\x00", 1<<20)
	if err := appendTo(undo.NewJournal(d), e); err != nil {
		t.Fatal(err)
	}
	if rec, err := undo.ReadJournal(&d.Buffer); err != nil || len(rec.Entries) != 1 {
		t.Fatalf("got %d entries, %v", len(rec.Entries), err)
	}
}

func TestEveryEntryIsOnDiskWhenAppendReturns(t *testing.T) {
	d := &disk{}
	j := undo.NewJournal(d)
	for step := range 5 {
		if err := appendTo(j, entry(step, history.StageIntent)); err != nil {
			t.Fatal(err)
		}
		if d.synced != d.Len() {
			t.Fatalf("step %d: %d of %d bytes are synced", step, d.synced, d.Len())
		}
	}
	rec, err := undo.ReadJournal(bytes.NewReader(d.Bytes()))
	if err != nil || rec.Torn || len(rec.Entries) != 5 {
		t.Fatalf("got %+v, %v", rec, err)
	}
}

func TestCutAnywhereLosesAtMostTheLastRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &disk{}
		j := undo.NewJournal(d)
		n := rapid.IntRange(1, 6).Draw(t, "entries")
		for step := range n {
			if err := appendTo(j, entry(step, history.StageInjected)); err != nil {
				t.Fatal(err)
			}
		}
		cut := rapid.IntRange(0, d.Len()).Draw(t, "cut")
		whole := bytes.Count(d.Bytes()[:cut], []byte("\n"))
		rec, err := undo.ReadJournal(bytes.NewReader(d.Bytes()[:cut]))
		if err != nil {
			t.Fatal(err)
		}
		atEnd := cut == 0 || d.Bytes()[cut-1] == '\n'
		if len(rec.Entries) != whole || rec.Torn == atEnd {
			t.Fatalf("cut at %d: got %d entries, torn %v; want %d", cut, len(rec.Entries), rec.Torn, whole)
		}
	})
}

func TestOpenFaults(t *testing.T) {
	const (
		intent, armed, injected = history.StageIntent, history.StageArmed, history.StageInjected
		healed, gone, failed    = history.StageHealed, history.StageConfirmedHealed, history.StageFaultFailed
	)
	for _, tc := range []struct {
		name    string
		entries []undo.Entry
		want    []undo.Entry
	}{
		{"empty", nil, nil},
		{"intent alone", []undo.Entry{entry(1, intent)}, []undo.Entry{entry(1, intent)}},
		{"ended", []undo.Entry{entry(1, intent), entry(1, injected), entry(1, healed), entry(1, gone)}, nil},
		{"healed, not shown", []undo.Entry{entry(1, intent), entry(1, healed), entry(1, failed)},
			[]undo.Entry{entry(1, healed)}},
		{"failed, then healed",
			[]undo.Entry{entry(1, intent), entry(1, failed), entry(1, healed), entry(1, gone)}, nil},
		{"failed", []undo.Entry{entry(1, intent), entry(1, failed)}, []undo.Entry{entry(1, failed)}},
		{"in order", []undo.Entry{entry(2, intent), entry(1, intent), entry(2, armed)},
			[]undo.Entry{entry(2, armed), entry(1, intent)}},
		{"begun twice", []undo.Entry{entry(1, intent), entry(1, gone), entry(1, intent), entry(1, armed)},
			[]undo.Entry{entry(1, armed)}},
		{"failed after the end", []undo.Entry{entry(1, intent), entry(1, gone), entry(1, failed)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, undo.JournalRecord{Entries: tc.entries}.Open()); d != "" {
				t.Errorf("open faults (-want +got):\n%s", d)
			}
		})
	}
}

func TestAfterAnErrorNothingIsAppended(t *testing.T) {
	full := errors.New("no space left on device")
	d := &disk{writeErr: full}
	j := undo.NewJournal(d)
	if err := appendTo(j, entry(1, history.StageIntent)); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
	d.writeErr = nil
	if err := appendTo(j, entry(2, history.StageIntent)); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
	rec, err := undo.ReadJournal(&d.Buffer)
	if err != nil || !rec.Torn || len(rec.Entries) != 0 {
		t.Fatalf("got %+v, %v", rec, err)
	}
	if err := appendTo(undo.NewJournal(&disk{syncFail: full}), entry(1, history.StageIntent)); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
}

func TestReadRefusesDamage(t *testing.T) {
	for _, text := range []string{"x\n", "{}\n", `{"schema":2}` + "\n", `{"schema":1,"what":1}` + "\n",
		strings.Repeat("a", 70<<10) + "\n"} {
		if _, err := undo.ReadJournal(strings.NewReader(text)); err == nil {
			t.Errorf("%.20q passes", text)
		}
	}
}

func FuzzRead(f *testing.F) {
	d := &disk{}
	if err := appendTo(undo.NewJournal(d), entry(1, history.StageIntent)); err != nil {
		f.Fatal(err)
	}
	whole := d.Bytes()
	f.Add(whole)
	f.Add(whole[:len(whole)/2]) // Torn.
	f.Add([]byte("\x00\x00\x00\n"))
	f.Add([]byte(`{"schema":1,"run":"$(id)","step":-1,"fault":"../..","node":"\u001b[2J","stage":"armed","at":1}` +
		"\n"))
	f.Add(bytes.Replace(whole, []byte("intent"), []byte("confirmedHealed"), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, _ := undo.ReadJournal(bytes.NewReader(data))
		if open := rec.Open(); len(open) > len(rec.Entries) {
			t.Fatalf("%d open faults of %d entries", len(open), len(rec.Entries))
		}
	})
}
