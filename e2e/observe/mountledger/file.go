package mountledger

import (
	"bytes"
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

	"github.com/seatrial/seatrial/e2e/history"
)

// Last is the end of a ledger that was kept earlier: when it was last heard of, and in which boot.
type Last struct {
	At   history.Time
	Boot string
}

// File is a ledger's file: one line of JSON a fact, appended and never changed. It writes behind the back of those who
// Put, one write for all that has come meanwhile.
type File struct {
	file *os.File
	log  *slog.Logger

	mu      sync.Mutex
	queue   []history.Event
	closing bool
	waiting []chan struct{} // Closed when what is queued now was given to the kernel.

	wake  chan struct{} // Holds one token when there is something to do.
	done  chan struct{}
	dirty chan struct{}                // Holds one token when there is something to sync.
	quit  chan struct{}                // Closed by Close.
	wrote func(events []history.Event) // For measurements: called after every write that worked, when set.

	// For the writing goroutine alone.
	buf      bytes.Buffer
	torn     bool         // The file does not end with a line feed.
	lostFrom history.Time // Facts from then on could not be written; zero when none.
	lost     int
}

// syncEvery bounds how often the file is made durable.
const syncEvery = time.Second

// OpenFile opens or makes a ledger's file, and reads where an earlier ledger in it ended.
func OpenFile(path string, log *slog.Logger) (*File, Last, error) {
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
		file: file, log: log, torn: torn,
		wake: make(chan struct{}, 1), done: make(chan struct{}), dirty: make(chan struct{}, 1),
		quit: make(chan struct{}),
	}
	synced := make(chan struct{})
	go f.sync(synced)
	go f.write(synced)
	return f, last, nil
}

// readLast finds when the ledger that the file ends with last saw everything, and whether its last line is torn.
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
	last := map[string]history.Event{} // The last word of each observer.
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

// Put queues facts. It never blocks.
func (f *File) Put(events []history.Event) {
	f.mu.Lock()
	f.queue = append(f.queue, events...)
	f.mu.Unlock()
	signal(f.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Flush returns when all that was Put before is in the file, or could not be written.
func (f *File) Flush() {
	done := make(chan struct{})
	f.mu.Lock()
	f.waiting = append(f.waiting, done)
	f.mu.Unlock()
	signal(f.wake)
	<-done
}

// Close writes what is queued, makes it durable and closes the file. Nobody may Put any more.
func (f *File) Close() error {
	f.mu.Lock()
	f.closing = true
	f.mu.Unlock()
	close(f.quit)
	signal(f.wake)
	<-f.done
	return errors.Join(f.file.Sync(), f.file.Close())
}

func (f *File) write(synced <-chan struct{}) {
	defer close(f.done)
	for range f.wake {
		f.mu.Lock()
		events, closing, waiting := f.queue, f.closing, f.waiting
		f.queue, f.waiting = nil, nil
		f.mu.Unlock()
		if len(events) > 0 {
			f.append(events)
			signal(f.dirty)
		}
		for _, done := range waiting {
			close(done)
		}
		if closing {
			close(f.dirty)
			<-synced
			return
		}
	}
}

// sync makes the file durable, away from those who write it: on a busy disk it may take long.
func (f *File) sync(synced chan<- struct{}) {
	defer close(synced)
	pause := time.NewTicker(syncEvery)
	defer pause.Stop()
	for range f.dirty {
		if err := unix.Fdatasync(int(f.file.Fd())); err != nil {
			f.log.Error("the ledger could not be made durable", "file", f.file.Name(), "error", err)
		}
		select {
		case <-pause.C:
		case <-f.quit:
		}
	}
}

// append writes facts at once. Facts that cannot be written are counted, and once writing works again that is
// recorded before anything else.
func (f *File) append(events []history.Event) {
	f.buf.Reset()
	if f.torn {
		f.buf.WriteByte('\n')
	}
	if f.lost > 0 {
		e := events[0]
		loss := lossFact(history.Between(f.lostFrom, e.Span.NotAfter), fmt.Sprintf("%d facts could not be written", f.lost))
		loss.Source, loss.Observer.Node = e.Source, strings.TrimPrefix(e.Source, "ledger/")
		_ = history.Append(&f.buf, loss) // A buffer takes everything, and this fact can be encoded.
	}
	for _, e := range events {
		if err := history.Append(&f.buf, e); err != nil {
			f.log.Error("a fact could not be encoded", "kind", e.Kind, "error", err)
			f.lose([]history.Event{e})
		}
	}
	n, err := f.file.Write(f.buf.Bytes())
	if err != nil {
		f.log.Error("the ledger could not be written", "file", f.file.Name(), "facts", len(events), "error", err)
		f.torn = f.torn || n > 0
		f.lose(events)
		return
	}
	f.torn, f.lost, f.lostFrom = false, 0, 0
	if f.wrote != nil {
		f.wrote(events)
	}
}

func (f *File) lose(events []history.Event) {
	if f.lost == 0 {
		f.lostFrom = events[0].Span.NotBefore
	}
	f.lost += len(events)
}
