package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds one line of a history file in bytes; an API object is at most 1.5 MiB in etcd.
const maxLine = 16 << 20

// History is the ordered facts of one trial. Truncated says that the last line was torn, as after a crash: what is
// missing can only turn a verdict into UNKNOWN, never into PASS.
type History struct {
	Events    []Event
	Truncated bool
}

// Append writes one event as one line of JSON.
func Append(w io.Writer, e Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event %d: %w", e.ID, err)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write event %d: %w", e.ID, err)
	}
	return nil
}

// Read decodes a history file (JSON lines). A torn last line, or an unexpected end of the stream below it, sets
// Truncated and is no error; a broken line in the middle is one. IDs must rise by one from 1.
func Read(r io.Reader) (History, error) {
	var h History
	lines := bufio.NewReaderSize(r, 1<<20)
	for n := int64(1); ; n++ {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return h, nil
		}
		torn := err != nil
		if torn && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return h, fmt.Errorf("read line %d: %w", n, err)
		}
		var e Event
		if jsonErr := json.Unmarshal(line, &e); jsonErr != nil {
			if torn {
				h.Truncated = true
				return h, nil //nolint:nilerr // Truncated tells of it.
			}
			return h, fmt.Errorf("decode line %d: %w", n, jsonErr)
		}
		if e.ID != n {
			return h, fmt.Errorf("decode line %d: event has id %d, want %d: facts are missing or out of order",
				n, e.ID, n)
		}
		h.Events = append(h.Events, e)
		if torn {
			h.Truncated = errors.Is(err, io.ErrUnexpectedEOF)
			return h, nil
		}
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("line is longer than %d bytes", maxLine)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimSuffix(line, []byte("\n")), err
	}
}
