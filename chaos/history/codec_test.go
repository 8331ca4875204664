package history_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
)

// drawEvent draws an event with the payload that its kind names.
func drawEvent(t *rapid.T) history.Event {
	text := func(name string) string { return strings.ToValidUTF8(rapid.String().Draw(t, name), "?") }
	number := func(name string) int64 { return rapid.Int64().Draw(t, name) }
	span := history.Span{NotBefore: history.Time(number("nb")), NotAfter: history.Time(number("na"))}
	e := history.Event{Source: text("source"), Span: span}
	yes := rapid.Bool().Draw(t, "flag")
	switch rapid.IntRange(0, 12).Draw(t, "kind") {
	case 0:
		e.Kind, e.Plan = history.KindPlan, json.RawMessage(`{"schema":1}`)
	case 1:
		e.Kind, e.Phase = history.KindPhase, &history.Phase{Name: history.PhaseStep, Step: int(number("step")),
			End: yes, Error: text("error")}
	case 2:
		e.Kind, e.Op = history.KindOp, &history.Op{Client: int(number("client")), Number: number("n"),
			F:     history.OpRead,
			Stage: history.StageOK, Instance: text("instance"), Seq: number("seq"), CRC: rapid.Uint32().Draw(t,
				"crc"), Found: &yes}
	case 3:
		rows := []history.Row{}
		for range rapid.IntRange(0, 3).Draw(t, "rows") {
			rows = append(rows, history.Row{Client: int(number("c")), Seq: number("s"), CRC: rapid.Uint32().Draw(t,
				"crc")})
		}
		e.Kind, e.Rows = history.KindRows, &history.Rows{Instance: text("instance"), Read: "final", Chunk: 1,
			Chunks: 1, Rows: rows}
	case 4:
		e.Kind, e.Mount = history.KindMount, &history.Mount{Action: history.MountAttach, Node: text("node"),
			Boot:    text("boot"),
			MountID: rapid.Uint64().Draw(t, "id"), Identity: history.Identity{BackingInode: rapid.Uint64().Draw(t,
				"inode")}, Unknown: yes}
	case 5:
		e.Kind, e.Object = history.KindObject, &history.Object{Verb: history.VerbAdded, Resource: "pods",
			Name:            text("name"),
			ResourceVersion: "7", Raw: json.RawMessage(`{"a":[1,2]}`)}
	case 6:
		e.Kind, e.Fault = history.KindFault, &history.Fault{Step: int(number("step")), Name: text("name"),
			Stage: history.StageInjected, Evidence: []string{text("evidence")}}
	case 7:
		e.Kind, e.Process = history.KindProcess, &history.Process{Action: history.ProcessGone, Node: text("node"),
			PID: 7, Start: span.NotBefore}
	case 8:
		e.Kind, e.Checksum = history.KindChecksum, &history.Checksum{Instance: text("instance"),
			Table64: rapid.Uint64().Draw(t, "sum"),
			RowHash: text("hash"), Rows: number("rows"), Quiet: yes}
	case 9:
		e.Kind, e.Observer = history.KindObserver, &history.Observer{Name: text("name"), State: history.ObserverGap,
			Detail: text("detail")}
	case 10:
		e.Kind, e.Volume = history.KindVolume, &history.Volume{PV: text("pv"), Node: text("node"), Path: text("path")}
	case 11:
		e.Kind, e.Pull = history.KindPull, &history.Pull{Node: text("node"), Volume: text("volume"),
			Identity: history.Identity{Device: text("device")}, ShutDown: text("path"), Error: text("error"),
			Tries: []history.Try{{Of: history.TryDevice, What: text("what"), Bytes: number("bytes"),
				Errno: text("errno")}}}
	case 12:
		e.Kind, e.Residue = history.KindResidue, &history.Residue{When: history.After, Run: text("run"),
			Node: text("node"), Things: []history.Thing{{Class: history.ThingUnit, Name: text("name"), Is: text("is"),
				Run: text("owner"), Step: int(number("step"))}},
			Blind: []history.Blind{{Class: history.ThingLoop, Why: text("why")}}, Error: text("error")}
	}
	return e
}

func encode(t interface{ Fatalf(string, ...any) }, events []history.Event) []byte {
	var b bytes.Buffer
	for _, e := range events {
		if err := history.Append(&b, e); err != nil {
			t.Fatalf("%v", err)
		}
	}
	return b.Bytes()
}

// TestRoundTrip holds that what was written is read back, every field of it.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(drawEvent), 1, 8).Draw(t, "events")
		for i := range events {
			events[i].ID = int64(i + 1)
		}
		h, err := history.Read(bytes.NewReader(encode(t, events)))
		if err != nil {
			t.Fatalf("%v", err)
		}
		if diff := cmp.Diff(history.History{Events: events}, h); diff != "" {
			t.Fatalf("%s", diff)
		}
	})
}

func threeEvents() []history.Event {
	return []history.Event{
		{ID: 1, Kind: history.KindPhase, Source: "trial", Span: history.At(1),
			Phase: &history.Phase{Name: history.PhaseSetup}},
		{ID: 2, Kind: history.KindFault, Source: "guard", Span: history.At(2), Fault: &history.Fault{Step: 1,
			Name: "é {}\n"}},
		{ID: 3, Kind: history.KindPhase, Source: "trial", Span: history.At(3),
			Phase: &history.Phase{Name: history.PhaseDone, End: true}},
	}
}

// TestTornAtEveryByte cuts a history after every byte: what is read is a prefix of what was written, a cut inside a
// line is said to be torn, and no cut is an error.
func TestTornAtEveryByte(t *testing.T) {
	events := threeEvents()
	data := encode(t, events)
	for n := range len(data) + 1 {
		h, err := history.Read(bytes.NewReader(data[:n]))
		if err != nil {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
		if diff := cmp.Diff(events[:len(h.Events)], h.Events, cmp.Transformer("none",
			func(e []history.Event) []history.Event {
				return append([]history.Event{}, e...)
			})); len(h.Events) > 0 && diff != "" {
			t.Fatalf("cut to %d bytes: %s", n, diff)
		}
		lines := bytes.Count(data[:n], []byte("\n"))
		inside := n > 0 && data[n-1] != '\n'
		// A line that lacks nothing but its line feed is whole.
		whole := inside && data[n] == '\n'
		if want := lines + map[bool]int{true: 1}[whole]; len(h.Events) != want {
			t.Fatalf("cut to %d bytes: %d events, want %d", n, len(h.Events), want)
		}
		if h.Truncated != (inside && !whole) {
			t.Fatalf("cut to %d bytes: torn is %v", n, h.Truncated)
		}
	}
}

// cutReader ends a stream as a broken compressed file does.
type cutReader struct{ r io.Reader }

func (c cutReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// TestStreamEndsTooSoon holds that an unexpected end of the stream below makes a history torn even between two lines:
// nobody knows what came after.
func TestStreamEndsTooSoon(t *testing.T) {
	data := encode(t, threeEvents())
	for n := range len(data) + 1 {
		h, err := history.Read(cutReader{bytes.NewReader(data[:n])})
		if err != nil {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
		if !h.Truncated {
			t.Fatalf("cut to %d bytes it reads as whole, with %d events", n, len(h.Events))
		}
	}
}

func TestReadRefuses(t *testing.T) {
	line := func(id string) string {
		return `{"id":` + id + `,"kind":"phase","source":"t","span":{"nb":1,"na":1}}` + "\n"
	}
	failing := errors.New("disk on fire")
	for _, c := range []struct {
		name string
		in   io.Reader
		says string
	}{
		{"ids that begin at 2", strings.NewReader(line("2")), "line 1: event has id 2, want 1"},
		{"an id left out", strings.NewReader(line("1") + line("3")), "line 2: event has id 3, want 2"},
		{"an id twice", strings.NewReader(line("1") + line("1")), "line 2: event has id 1, want 2"},
		{"ids out of order", strings.NewReader(line("1") + line("3") + line("2")), "line 2"},
		{"an id of text", strings.NewReader(line(`"1"`) + line("2")), "decode line 1"},
		{"a broken line before others", strings.NewReader(line("1") + "{\n" + line("3")), "decode line 2"},
		{"an empty line", strings.NewReader(line("1") + "\n" + line("2")), "decode line 2"},
		{"a stream that fails", io.MultiReader(strings.NewReader(line("1")), failingReader{failing}), "disk on fire"},
		{"a line too long", io.MultiReader(strings.NewReader(`{"id":1,"source":"`), &endless{}), "longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := history.Read(c.in)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
		})
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// endless is a line without end.
type endless struct{}

func (*endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestAppendRefuses(t *testing.T) {
	e := history.Event{ID: 7, Plan: json.RawMessage("{")}
	if err := history.Append(io.Discard, e); err == nil || !strings.Contains(err.Error(), "event 7") {
		t.Errorf("error %v, want one that names event 7", err)
	}
	r, w := io.Pipe()
	if err := errors.Join(r.Close(), history.Append(w, history.Event{ID: 8})); err == nil ||
		!strings.Contains(err.Error(), "event 8") {
		t.Errorf("error %v, want one that names event 8", err)
	}
}

// FuzzRead reads whatever bytes there are: it never panics, and what it returns can be written and read again.
func FuzzRead(f *testing.F) {
	f.Add(encode(f, threeEvents()))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"id":1}`))
	f.Add([]byte("{\"id\":1}\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := history.Read(bytes.NewReader(data))
		for i, e := range h.Events {
			if e.ID != int64(i+1) {
				t.Fatalf("event %d has id %d", i, e.ID)
			}
		}
		if err != nil {
			return
		}
		again, err := history.Read(bytes.NewReader(encode(t, h.Events)))
		if err != nil {
			t.Fatalf("read again: %v", err)
		}
		if len(again.Events) != len(h.Events) || again.Truncated {
			t.Fatalf("%d events, read again %d, torn: %v", len(h.Events), len(again.Events), again.Truncated)
		}
	})
}
