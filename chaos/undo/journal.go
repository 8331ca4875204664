package undo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	strictjson "sigs.k8s.io/json"

	"github.com/seatrial/seatrial/chaos/history"
)

const (
	journalSchema = 1        // The version of an entry's JSON; a reader refuses any other.
	maxLine       = 64 << 10 // Bytes of a record; an entry is a few hundred.
	maxError      = 8 << 10  // Bytes of an entry's error. Each takes at most six in JSON.
)

// Entry records that a fault has reached a stage; intent means that it is about to begin.
type Entry struct {
	Schema int `json:"schema"`
	Owner
	Fault string             `json:"fault"`
	Node  string             `json:"node"`
	Stage history.FaultStage `json:"stage"`
	At    history.Time       `json:"at"`
	Error string             `json:"error,omitempty"` // Only with StageFaultFailed.
}

// File stores a journal: an *os.File opened for appending. Sync returns once the written data would survive a crash of
// the machine.
type File interface {
	io.Writer
	Sync() error
}

// Journal appends entries to one file. It is safe for concurrent use.
type Journal struct {
	mu   sync.Mutex
	file File
	err  error
}

// NewJournal returns a journal that appends to file.
func NewJournal(file File) *Journal { return &Journal{file: file} }

// Append records that the fault f of a run has reached its stage, and returns once that is on disk. After an error
// every further Append fails with it: a record after a torn one would look like damage.
func (j *Journal) Append(run string, at history.Time, f history.Fault) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err
	}
	e := Entry{
		Schema: journalSchema, Owner: Owner{Run: run, Step: f.Step}, Fault: f.Name, Node: f.Node, Stage: f.Stage,
		At: at, Error: f.Error[:min(len(f.Error), maxError)],
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode journal entry of step %d: %w", e.Step, err)
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		j.err = fmt.Errorf("write journal entry of step %d: %w", e.Step, err)
		return j.err
	}
	if err := j.file.Sync(); err != nil {
		j.err = fmt.Errorf("sync journal entry of step %d: %w", e.Step, err)
	}
	return j.err
}

// JournalRecord is the content of a journal.
type JournalRecord struct {
	Entries []Entry
	Torn    bool // The last record was cut off, as by a crash during its write, and is left out.
}

// ReadJournal reads a journal. A last record without its newline is torn. Any other invalid record is an error,
// returned beside the entries before it.
func ReadJournal(r io.Reader) (JournalRecord, error) {
	var rec JournalRecord
	lines := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			rec.Torn = len(line) > 0
			return rec, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return rec, fmt.Errorf("read journal: line %d is longer than %d bytes", n, maxLine)
		case err != nil:
			return rec, fmt.Errorf("read journal: line %d: %w", n, err)
		}
		e, err := decodeEntry(line)
		if err != nil {
			return rec, fmt.Errorf("read journal: line %d: %w", n, err)
		}
		rec.Entries = append(rec.Entries, e)
	}
}

func decodeEntry(line []byte) (e Entry, err error) {
	strict, err := strictjson.UnmarshalStrict(line, &e)
	if err = errors.Join(append(strict, err)...); err != nil {
		return e, fmt.Errorf("decode entry: %w", err)
	}
	if e.Schema != journalSchema {
		return e, fmt.Errorf("decode entry: schema %d, want %d", e.Schema, journalSchema)
	}
	return e, nil
}

// Open returns the last entry of every fault that began and was not shown to be healed, in the order in which they
// began. A failed fault stays open until an entry shows its heal.
func (r JournalRecord) Open() []Entry {
	var order []Owner
	last := map[Owner]Entry{}
	for _, e := range r.Entries {
		old, begun := last[e.Owner]
		switch {
		case e.Stage == history.StageConfirmedHealed:
			delete(last, e.Owner)
			continue
		case e.Stage == history.StageIntent && !begun:
			order = append(order, e.Owner)
		case !begun:
			continue // Nothing is open: it failed after its end, or before its beginning.
		case e.Stage == history.StageFaultFailed && old.Stage == history.StageHealed:
			continue // Keep healed, which says more than the failure to show it.
		}
		last[e.Owner] = e
	}
	var open []Entry
	for _, o := range order {
		if e, ok := last[o]; ok {
			open = append(open, e)
			delete(last, o) // The same step may have begun twice.
		}
	}
	return open
}
