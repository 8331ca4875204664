// Package ledgerfile keeps the file that an observer on a node appends its facts to.
//
// Its promise: what was put is in the file before Put returns, and what could not be written is counted and said. It
// runs on the nodes, so it imports the standard library, golang.org/x/sys/unix and the facts only.
package ledgerfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
)

// Last is the end of an earlier ledger: its last time, and the boot.
type Last struct {
	At   history.Time
	Boot string
}

// File is a ledger's file: a line of JSON for each fact, appended and never changed. It is safe for concurrent use.
type File struct {
	file      *os.File
	observers []string
	log       *slog.Logger

	mu       sync.Mutex
	buf      bytes.Buffer
	torn     bool         // The file does not end with a line feed.
	lostFrom history.Time // With lost above 0: since when facts could not be written.
	lost     int
	again    context.CancelFunc // Of Until, or nil.

	dirty  chan struct{} // Holds one token when there is something to sync.
	quit   chan struct{} // Closed by Close.
	synced chan struct{} // Closed when the syncing goroutine has ended.
}

// syncEvery bounds how often the file is synced. Only a crash of the machine loses facts, and more syncs would delay
// the workload on the same disk.
const syncEvery = 5 * time.Second

// Open opens or makes a ledger's file, and reads the end of an earlier ledger in it. Facts that cannot be written are
// recorded as a loss of each of the observers, which are all that write to the file.
func Open(path string, log *slog.Logger, observers ...string) (*File, Last, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, Last{}, fmt.Errorf("make the ledger's directory: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, Last{}, fmt.Errorf("open the ledger: %w", err)
	}
	last, torn, err := readLast(file)
	if err != nil {
		return nil, Last{}, errors.Join(fmt.Errorf("read the end of the ledger %q: %w", path, err), file.Close())
	}
	f := &File{
		file: file, observers: observers, log: log, torn: torn,
		dirty: make(chan struct{}, 1), quit: make(chan struct{}), synced: make(chan struct{}),
	}
	go f.sync()
	return f, last, nil
}

// readLast returns the time up to which the last ledger in the file saw everything, and whether the last line is torn.
func readLast(file *os.File) (Last, bool, error) {
	const enough = 256 << 10 // Several minutes of beats.
	info, err := file.Stat()
	if err != nil {
		return Last{}, false, err
	}
	from := max(0, info.Size()-enough)
	data, err := io.ReadAll(io.NewSectionReader(file, from, info.Size()-from))
	if err != nil || len(data) == 0 {
		return Last{}, false, err
	}
	last := map[string]history.Event{} // The last fact of each observer.
	var boot string
	for line := range bytes.Lines(data) {
		var e history.Event
		if json.Unmarshal(line, &e) != nil || e.Observer == nil || e.Observer.State == history.ObserverLoss {
			continue
		}
		if e.Observer.Boot != boot {
			boot = e.Observer.Boot
			clear(last)
		}
		last[e.Observer.Name] = e
	}
	l := Last{Boot: boot}
	for _, e := range last {
		if l.At == 0 || e.Span.NotBefore < l.At {
			l.At = e.Span.NotBefore
		}
	}
	return l, data[len(data)-1] != '\n', nil
}

// Close syncs and closes the file. Put must not be called any more.
func (f *File) Close() error {
	close(f.quit)
	<-f.synced
	if f.again != nil {
		f.again()
	}
	return errors.Join(f.file.Sync(), f.file.Close())
}

// sync syncs the file in a goroutine of its own: that may take long on a busy disk.
func (f *File) sync() {
	defer close(f.synced)
	pause := time.NewTicker(syncEvery)
	defer pause.Stop()
	for {
		select {
		case <-f.dirty:
		case <-f.quit:
			return
		}
		if err := unix.Fdatasync(int(f.file.Fd())); err != nil {
			f.log.Error("the ledger could not be made durable", "file", f.file.Name(), "error", err)
		}
		select {
		case <-pause.C:
		case <-f.quit:
			return
		}
	}
}

// Until returns a context that ends with ctx, with Close, and once a loss is on record: what appeared then may still be
// there, and must be listed again.
func (f *File) Until(ctx context.Context) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, f.again = context.WithCancel(ctx)
	return ctx
}

// Put writes facts, in one write. It counts facts that cannot be written, and records the loss first when writing works
// again.
func (f *File) Put(events []history.Event) {
	if len(events) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf.Reset()
	if f.torn {
		f.buf.WriteByte('\n')
	}
	all := events
	if f.lost > 0 {
		all = append(f.losses(events[0]), events...)
	}
	for _, e := range all {
		if err := history.Append(&f.buf, e); err != nil { // A fact of a ledger holds nothing that JSON cannot.
			f.log.Error("a fact could not be encoded", "kind", e.Kind, "error", err)
		}
	}
	n, err := f.file.Write(f.buf.Bytes())
	if err != nil {
		f.log.Error("the ledger could not be written", "file", f.file.Name(), "facts", len(events), "error", err)
		f.torn = f.torn || n > 0
		for _, e := range events {
			if f.lost == 0 || e.Span.NotBefore < f.lostFrom {
				f.lostFrom = e.Span.NotBefore
			}
			f.lost++
		}
		return
	}
	if f.lost > 0 && f.again != nil {
		f.again()
	}
	f.torn, f.lost = false, 0
	select {
	case f.dirty <- struct{}{}:
	default:
	}
}

// losses returns the facts that facts before next were lost. The node is in the source, after its slash.
func (f *File) losses(next history.Event) []history.Event {
	_, node, _ := strings.Cut(next.Source, "/")
	var losses []history.Event
	for _, observer := range f.observers {
		losses = append(losses, history.Event{
			Kind: history.KindObserver, Source: next.Source, Span: history.Between(f.lostFrom, next.Span.NotAfter),
			Observer: &history.Observer{
				Name: observer, Node: node, State: history.ObserverLoss,
				Detail: fmt.Sprintf("%d facts could not be written", f.lost),
			},
		})
	}
	return losses
}
