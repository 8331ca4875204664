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

// Entry says that a fault has come to a stage: for intent, that it is about to begin.
type Entry struct {
	Schema int                `json:"schema"`
	Run    string             `json:"run"`
	Step   int                `json:"step"`
	Fault  string             `json:"fault"`
	Node   string             `json:"node"`
	Stage  history.FaultStage `json:"stage"`
	At     history.Time       `json:"at"`
	Error  string             `json:"error,omitempty"` // Only with StageFaultFailed.
}

// File is where a journal is kept: an *os.File opened for appending. Sync returns when what was written survives a
// crash of the machine.
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

// Append writes that the fault f of a run has come to its stage, and returns when that is on disk. After an error
// every further Append fails with it: a record after a torn one would make the tear look like damage.
func (j *Journal) Append(run string, at history.Time, f history.Fault) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err
	}
	e := Entry{
		Schema: journalSchema, Run: run, Step: f.Step, Fault: f.Name, Node: f.Node, Stage: f.Stage, At: at,
		Error: f.Error[:min(len(f.Error), maxError)],
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

// JournalRecord is what a journal was found to hold.
type JournalRecord struct {
	Entries []Entry
	Torn    bool // The last record was cut off, as by a crash while it was written. It is left out.
}

// ReadJournal reads a journal. A last record without its newline is torn, not wrong; anything else that is no entry is
// an error, and the entries before it are returned beside it.
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

// Open returns the last entry of every fault that was begun and not shown to be healed, in the order in which they
// were begun. A fault that failed stays open: the entry that follows says whether its heal was shown.
func (r JournalRecord) Open() []Entry {
	type key struct {
		run  string
		step int
	}
	var order []key
	last := map[key]Entry{}
	for _, e := range r.Entries {
		k := key{e.Run, e.Step}
		old, begun := last[k]
		switch {
		case e.Stage == history.StageConfirmedHealed:
			delete(last, k)
			continue
		case e.Stage == history.StageIntent && !begun:
			order = append(order, k)
		case !begun:
			continue // Nothing is open: a failure after the end, or before the beginning.
		case e.Stage == history.StageFaultFailed && old.Stage == history.StageHealed:
			continue // Healed says more than that showing it failed.
		}
		last[k] = e
	}
	var open []Entry
	for _, k := range order {
		if e, ok := last[k]; ok {
			open = append(open, e)
			delete(last, k) // The same step may have been begun twice.
		}
	}
	return open
}
