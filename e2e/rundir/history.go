package rundir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/seatrial/seatrial/chaos/history"
)

// flushEvery bounds how much of a history a SIGKILL can cost.
const flushEvery = 100 * time.Millisecond

// HistoryWriter appends facts to the history file. It is a history.Recorder.
type HistoryWriter struct {
	mu     sync.Mutex
	file   *os.File
	zip    *zstd.Encoder
	next   int64
	dirty  bool
	closed bool
	err    error

	stop     context.CancelFunc // Ends the flushing.
	flushing sync.WaitGroup
}

// RecordHistory begins the history file. The file must not exist: a history is written once.
func (d *Dir) RecordHistory() (*HistoryWriter, error) {
	f, err := os.OpenFile(d.File(HistoryFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("begin history: %w", err)
	}
	return newHistoryWriter(f)
}

func newHistoryWriter(f *os.File) (*HistoryWriter, error) {
	zip, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin history: %w", err), f.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &HistoryWriter{file: f, zip: zip, next: 1, stop: stop}
	w.flushing.Go(func() { wait.UntilWithContext(ctx, func(context.Context) { w.flush() }, flushEvery) })
	return w, nil
}

// Record gives the fact its number and appends it. After an error, or after Close, facts are dropped and the error
// is kept: the file then lacks its end, which no judge takes for a Pass.
func (w *HistoryWriter) Record(e history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || w.closed {
		return
	}
	e.ID = w.next
	if err := history.Append(w.zip, e); err != nil {
		w.err = fmt.Errorf("record history: %w", err)
		return
	}
	w.next++
	w.dirty = true
}

// Err returns the first error that kept a fact out of the file.
func (w *HistoryWriter) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close ends the file properly and returns the first error there was.
func (w *HistoryWriter) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return w.Err()
	}
	w.closed = true
	w.mu.Unlock()
	w.stop()
	w.flushing.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil { // The end mark of the compressed stream would say that nothing is missing.
		return errors.Join(w.err, w.file.Close())
	}
	w.err = errors.Join(w.zip.Close(), w.file.Sync(), w.file.Close())
	if w.err != nil {
		w.err = fmt.Errorf("close history: %w", w.err)
	}
	return w.err
}

func (w *HistoryWriter) flush() {
	w.mu.Lock()
	dirty := w.dirty && w.err == nil
	if dirty {
		w.dirty = false
		if err := w.zip.Flush(); err != nil {
			w.err = fmt.Errorf("flush history: %w", err)
			dirty = false
		}
	}
	w.mu.Unlock()
	if !dirty {
		return
	}
	// Outside the lock: an fsync can take long, and facts must not wait for it.
	if err := w.file.Sync(); err != nil {
		w.mu.Lock()
		w.err = errors.Join(w.err, fmt.Errorf("sync history: %w", err))
		w.mu.Unlock()
	}
}

// ReadHistory loads the history from disk.
func (d *Dir) ReadHistory() (history.History, error) {
	f, err := os.Open(d.File(HistoryFile))
	if err != nil {
		return history.History{}, fmt.Errorf("read history: %w", err)
	}
	defer f.Close() //nolint:errcheck // It is only read.
	zip, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		return history.History{}, fmt.Errorf("read history %q: %w", f.Name(), err)
	}
	defer zip.Close()
	h, err := history.Read(zip)
	if err != nil {
		return history.History{}, fmt.Errorf("read history %q: %w", f.Name(), err)
	}
	if info, err := f.Stat(); err == nil && info.Size() == 0 {
		h.Truncated = true // Nothing was ever flushed; an empty file is no compressed stream that ended.
	}
	return h, nil
}
