package mounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seatrial/seatrial/e2e/history"
)

// mostLine bounds one line of a ledger in bytes. A fact of a mount is a few hundred, its paths are bounded by the
// kernel at 4 KiB each.
const mostLine = 64 << 10

// lines cuts a stream into lines. Offset is where in the file the first byte is that has not been handed on.
type lines struct {
	offset int64
	rest   []byte // A line that has no end yet; not counted in offset.
	skip   bool   // In a line that is too long, up to its end.
	line   func(offset int64, line []byte)
	broken func(offset int64, why error)
}

// Write takes the next part of the stream. It never fails.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		p = rest
		switch {
		case l.skip && ended:
			l.offset += int64(len(part)) + 1
			l.skip = false
		case l.skip:
			l.offset += int64(len(part))
		case len(l.rest)+len(part) > mostLine:
			l.broken(l.offset, fmt.Errorf("line is longer than %d bytes", mostLine))
			l.offset += int64(len(l.rest) + len(part))
			l.rest, l.skip = nil, !ended
			if ended {
				l.offset++
			}
		case ended:
			l.rest = append(l.rest, part...)
			l.line(l.offset, l.rest)
			l.offset += int64(len(l.rest)) + 1
			l.rest = l.rest[:0]
		default:
			l.rest = append(l.rest, part...)
		}
	}
	return n, nil
}

// again makes the next part of the stream begin at offset: a line that had no end will come again.
func (l *lines) again() { l.rest = l.rest[:0] }

// decode reads one line of the ledger of a node. The node is believed about its own mounts, processes and ledger, and
// about nothing else.
func decode(node string, line []byte) (history.Event, error) {
	var e history.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return e, err
	}
	var of string
	switch {
	case e.Kind == history.KindMount && e.Mount != nil:
		of = e.Mount.Node
	case e.Kind == history.KindProcess && e.Process != nil:
		of = e.Process.Node
	case e.Kind == history.KindObserver && e.Observer != nil:
		of = e.Observer.Node
	default:
		return e, fmt.Errorf("a ledger holds no fact of kind %q", e.Kind)
	}
	if of != node {
		return e, fmt.Errorf("it is about node %q", of)
	}
	if e.Span.NotAfter < e.Span.NotBefore {
		return e, errors.New("its span ends before it begins")
	}
	return history.Event{
		Kind: e.Kind, Source: "ledger/" + node, Span: e.Span, Mount: e.Mount, Process: e.Process, Observer: e.Observer,
	}, nil
}
