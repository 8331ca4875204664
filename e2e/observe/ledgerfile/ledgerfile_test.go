package ledgerfile

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/history"
)

func lossFact(observer string, span history.Span, detail string) history.Event {
	return history.Event{
		Kind: history.KindObserver, Span: span,
		Observer: &history.Observer{Name: observer, State: history.ObserverLoss, Detail: detail},
	}
}

func openFile(t *testing.T, path string) (*File, Last) {
	t.Helper()
	f, last, err := Open(path, slog.New(slog.DiscardHandler), "mounts", "processes")
	if err != nil {
		t.Fatal(err)
	}
	return f, last
}

func beat(name, boot string, seen history.Time) history.Event {
	return history.Event{
		Kind: history.KindObserver, Source: "ledger/n", Span: history.At(seen),
		Observer: &history.Observer{Name: name, Node: "n", Boot: boot, State: history.ObserverBeat},
	}
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range bytes.Lines(data) {
		lines = append(lines, string(bytes.TrimSuffix(line, []byte("\n"))))
	}
	return lines
}

func TestFileKeepsOrderAndFindsItsEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dir", "ledger")
	f, last := openFile(t, path)
	if last != (Last{}) {
		t.Errorf("new file: last %+v", last)
	}
	const n = 1000
	for i := range n {
		m := &history.Mount{MountID: uint64(i)}
		f.Put([]history.Event{{Kind: history.KindMount, Mount: m, Span: history.At(history.Time(i))}})
	}
	if got := len(readLines(t, path)); got != n {
		t.Errorf("after Put: %d lines, want %d", got, n)
	}
	f.Put([]history.Event{
		beat("processes", "old", 7), beat("processes", "1s", 20), beat("mounts", "1s", 10),
		lossFact("processes", history.At(99), "x"),
	})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for i, line := range readLines(t, path)[:n] {
		var e history.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Mount.MountID != uint64(i) || e.ID != 0 {
			t.Fatalf("line %d: %q (%v)", i, line, err)
		}
	}
	f, last = openFile(t, path)
	if diff := cmp.Diff(Last{At: 10, Boot: "1s"}, last); diff != "" {
		t.Errorf("opened again (-want +got):\n%s", diff)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFileEndsATornLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	if err := os.WriteFile(path, []byte(`{"id":0,"ki`), 0o644); err != nil {
		t.Fatal(err)
	}
	f, last := openFile(t, path)
	f.Put([]history.Event{beat("mounts", "1s", 1)})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	lines := readLines(t, path)
	if len(lines) != 2 || lines[0] != `{"id":0,"ki` || last != (Last{}) {
		t.Errorf("lines %q, last %+v", lines, last)
	}
}

// TestFileRecordsWhatItCouldNotWrite has a full disk. What was lost may be of each observer that writes to the file.
func TestFileRecordsWhatItCouldNotWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	f, _ := openFile(t, path)
	real, err := os.OpenFile(path, os.O_APPEND|os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	first, ctx := f.file, f.Until(t.Context())
	f.file = full
	f.Put([]history.Event{beat("mounts", "1s", 5), beat("mounts", "1s", 6)})
	f.Put([]history.Event{beat("processes", "1s", 4)})
	f.file = real
	if ctx.Err() != nil {
		t.Error("what is there is to be listed again while that cannot be written")
	}
	f.Put([]history.Event{beat("mounts", "1s", 9)})
	if ctx.Err() == nil {
		t.Error("what is there is not to be listed again")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = first.Close(), full.Close()
	lines := readLines(t, path)
	if len(lines) != 3 {
		t.Fatalf("lines %q, want two losses and a beat", lines)
	}
	for i, observer := range []string{"mounts", "processes"} {
		want := lossFact(observer, history.Between(4, 9), "3 facts could not be written")
		want.Source, want.Observer.Node = "ledger/n", "n"
		var loss history.Event
		if err := json.Unmarshal([]byte(lines[i]), &loss); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, loss); diff != "" {
			t.Errorf("loss (-want +got):\n%s", diff)
		}
	}
}
