package tail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// mostLine bounds one line in bytes. A fact of a mount is a few hundred, its paths are bounded by the kernel at 4 KiB
// each.
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

// decode reads one line of the file of a node. The node is believed about itself, in facts of the kinds that belong in
// the file, and about nothing else.
func (f File) decode(node string, line []byte) (history.Event, error) {
	var e history.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return e, err
	}
	if !slices.Contains(f.Kinds, e.Kind) {
		return e, fmt.Errorf("%s holds no fact of kind %q", f.Name, e.Kind)
	}
	fact := history.Event{Kind: e.Kind, Source: f.Source + "/" + node, Span: e.Span}
	of, ok := keepPayload(&fact, e)
	switch {
	case !ok:
		return e, fmt.Errorf("it is of kind %q and has no such part", e.Kind)
	case of != node:
		return e, fmt.Errorf("it is about node %q", of)
	case e.Span.NotAfter < e.Span.NotBefore:
		return e, errors.New("its span ends before it begins")
	}
	if f.Written != "" && fact.Observer != nil {
		if fact.Observer.Name != f.Written {
			return e, fmt.Errorf("%s holds no word of an observer %q", f.Name, fact.Observer.Name)
		}
		fact.Observer.Name = f.Observer
	}
	return fact, nil
}

// keepPayload sets the one payload that the kind names, and returns which node it is about.
func keepPayload(fact *history.Event, e history.Event) (node string, ok bool) {
	switch {
	case e.Kind == history.KindMount && e.Mount != nil:
		fact.Mount = e.Mount
		return e.Mount.Node, true
	case e.Kind == history.KindProcess && e.Process != nil:
		fact.Process = e.Process
		return e.Process.Node, true
	case e.Kind == history.KindHolding && e.Holding != nil:
		fact.Holding = e.Holding
		return e.Holding.Node, true
	case e.Kind == history.KindCSI && e.CSI != nil:
		fact.CSI = e.CSI
		return e.CSI.Node, true
	case e.Kind == history.KindPull && e.Pull != nil:
		fact.Pull = e.Pull
		return e.Pull.Node, true
	case e.Kind == history.KindObserver && e.Observer != nil:
		fact.Observer = e.Observer
		return e.Observer.Node, true
	}
	return "", false
}
