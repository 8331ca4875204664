package nodefacts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// mostLine bounds a line, in bytes. A fact of a mount has a few hundred; the kernel bounds its paths to 4 KiB each.
const mostLine = 64 << 10

// mostRead is how much of a file is compared when it is read again, in bytes: more than a node writes between two syncs
// (ledgerfile) and in the half minute that the kernel may keep a file from the disk (dirty_expire_centisecs).
const mostRead = 64 << 10

// lines splits a stream into lines. Offset is that of the first byte in the file that line did not get.
//
// A node that loses its power may lose the end of a file that was read already, and the writer then appends where the
// disk has its end. So the stream begins with bytes that were read, and where they differ, what follows may be new. The
// disk may also have zeros in place of what was lost, at the end or in the middle: a line with zeros is left out if all
// of it was read, as is each later line that is the same as the one that was read there.
type lines struct {
	offset int64
	rest   []byte // A line without an end yet; not counted in offset.
	skip   bool   // The rest of a line that is too long is skipped.
	read   []byte // The last bytes before offset.
	same   int    // So many of read came again.
	lost   []byte // What had been read from lostAt on, when the stream last differed from it.
	lostAt int64
	had    int64 // The greatest offset until now.
	line   func(offset int64, line []byte)
	broken func(offset int64, why error)
}

// from is the offset where the stream begins after again.
func (l *lines) from() int64 { return l.offset - int64(len(l.read)) }

// Write takes the next part of the stream. It never fails.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	p = l.compare(p)
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
			l.rest, l.skip, l.read = nil, !ended, nil
			if ended {
				l.offset++
			}
		case ended:
			l.rest = append(l.rest, part...)
			if !l.known(l.rest) {
				l.line(l.offset, l.rest)
			}
			l.keep(append(l.rest, '\n'))
			l.rest = l.rest[:0]
		default:
			l.rest = append(l.rest, part...)
		}
	}
	return n, nil
}

// known reports whether all of a line at offset was read before.
func (l *lines) known(line []byte) bool {
	at, end := l.offset-l.lostAt, l.offset-l.lostAt+int64(len(line))
	return l.offset+int64(len(line)) <= l.had && bytes.IndexByte(line, 0) >= 0 ||
		at >= 0 && end < int64(len(l.lost)) && l.lost[end] == '\n' && bytes.Equal(line, l.lost[at:end])
}

// keep counts bytes as read.
func (l *lines) keep(p []byte) {
	l.offset += int64(len(p))
	l.had = max(l.had, l.offset)
	if l.read = append(l.read, p...); len(l.read) > mostRead+mostRead/4 {
		l.read = slices.Clone(l.read[len(l.read)-mostRead:])
	}
	l.same = len(l.read)
}

// compare takes the bytes that were read before from the stream, and returns the rest.
func (l *lines) compare(p []byte) []byte {
	for len(p) > 0 && l.same < len(l.read) {
		if p[0] == l.read[l.same] {
			l.same, p = l.same+1, p[1:]
			continue
		}
		l.lost, l.lostAt = slices.Clone(l.read), l.from()
		l.offset, l.read = l.from()+int64(l.same), l.read[:l.same]
		if p[0] == '\n' { // The writer ended a line that the disk has the begin of: it was read whole.
			l.keep(p[:1])
			return p[1:]
		}
		begin := bytes.LastIndexByte(l.read, '\n') + 1
		l.rest = append(l.rest[:0], l.read[begin:]...)
		l.offset -= int64(len(l.rest))
		l.read, l.same = l.read[:begin], begin
	}
	return p
}

// again makes the next part of the stream begin at from: a line without an end comes again.
func (l *lines) again() { l.rest, l.same = l.rest[:0], 0 }

// decode decodes a line of the file of a node, and returns the field of the fact that names the node's boot, nil if it
// names none. It accepts only facts about the node itself, of the kinds that belong in the file.
func (f file) decode(node string, line []byte) (history.Event, *string, error) {
	var e history.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return e, nil, err
	}
	if !slices.Contains(f.kinds, e.Kind) {
		return e, nil, fmt.Errorf("%s holds no fact of kind %q", f.name, e.Kind)
	}
	fact := history.Event{Kind: e.Kind, Source: f.source + "/" + node, Span: e.Span}
	of, boot, ok := keepPayload(&fact, e)
	switch {
	case !ok:
		return e, nil, fmt.Errorf("it is of kind %q and has no such part", e.Kind)
	case of != node:
		return e, nil, fmt.Errorf("it is about node %q", of)
	case e.Span.NotAfter < e.Span.NotBefore:
		return e, nil, errors.New("its span ends before it begins")
	}
	if f.written != "" && fact.Observer != nil {
		if fact.Observer.Name != f.written {
			return e, nil, fmt.Errorf("%s holds no fact of an observer %q", f.name, fact.Observer.Name)
		}
		fact.Observer.Name = f.observer
	}
	return fact, boot, nil
}

// keepPayload sets the one payload that the kind names, and returns which node and which boot it is about.
func keepPayload(fact *history.Event, e history.Event) (node string, boot *string, ok bool) {
	switch {
	case e.Kind == history.KindMount && e.Mount != nil:
		fact.Mount = e.Mount
		return e.Mount.Node, &e.Mount.Boot, true
	case e.Kind == history.KindProcess && e.Process != nil:
		fact.Process = e.Process
		return e.Process.Node, nil, true
	case e.Kind == history.KindHolding && e.Holding != nil:
		fact.Holding = e.Holding
		return e.Holding.Node, &e.Holding.Boot, true
	case e.Kind == history.KindCSI && e.CSI != nil:
		fact.CSI = e.CSI
		return e.CSI.Node, &e.CSI.Boot, true
	case e.Kind == history.KindPull && e.Pull != nil:
		fact.Pull = e.Pull
		return e.Pull.Node, &e.Pull.Boot, true
	case e.Kind == history.KindObserver && e.Observer != nil:
		fact.Observer = e.Observer
		return e.Observer.Node, &e.Observer.Boot, true
	}
	return "", nil, false
}
