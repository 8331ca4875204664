package mountledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

const (
	scanSpacesEvery = 250 * time.Millisecond
	// Every wholeEvery-th scan is a whole one: it reads the namespace of every process again, and whether volumes are
	// writable, and counts the files that are open for writing.
	wholeEvery = 4
	// settingUp is how long a namespace in which only runc runs is ignored. It begins as a copy of the node's own, with
	// every volume of the node, until runc has changed to the container's root.
	settingUp     = 2 * time.Second
	runcProcesses = "runc:["
)

// holdings watches the mount namespaces of processes, other than the node's own. It keeps none of them open: a
// namespace lives as long as its last user, and its volumes stay mounted with it.
type holdings struct {
	own     uint64          // The node's own namespace, by its inode.
	inOwn   map[int]bool    // The processes that were in it at the last scan.
	system  map[string]bool // The devices of the node's own file systems.
	spaces  map[uint64]*space
	scanned history.Time // When the last scan began.
	whole   history.Time // When the last whole scan began.
	scans   int
}

// space is one mount namespace.
type space struct {
	inode   uint64
	mounts  spaceMounts
	pids    []int
	first   probe.Process // The process that was started first; zero until the namespace was read.
	since   history.Time  // When the last scan began that did not see it, or when it was read last.
	volumes map[string]*history.Holding
	failed  bool // A loss is on record: it cannot be read.
}

func (l *ledger) watchHoldings(ctx context.Context, begun chan<- struct{}) error {
	h, err := newHoldings()
	if err != nil {
		return err
	}
	begin := bootclock.Now()
	events, err := h.scan(begin)
	if err != nil {
		return err
	}
	l.begin(ObserverHoldings, begin, "")
	l.put(events...)
	begun <- struct{}{}
	return l.lookAgain(ctx, ObserverHoldings, begin, scanSpacesEvery, func(begin history.Time) error {
		events, err := h.scan(begin)
		if len(events) > 0 {
			l.put(events...)
		}
		return err
	})
}

func newHoldings() (*holdings, error) {
	own, err := ownNamespace()
	if err != nil {
		return nil, fmt.Errorf("watch mount namespaces: %w", err)
	}
	return &holdings{own: own, inOwn: map[int]bool{}, system: systemDevices(), spaces: map[uint64]*space{}}, nil
}

// scan finds the namespaces and what changed in them since the last scan.
func (h *holdings) scan(begin history.Time) ([]history.Event, error) {
	whole := h.scans%wholeEvery == 0
	if whole {
		clear(h.inOwn)
	}
	found, err := namespaces(h.own, h.inOwn)
	if err != nil {
		return nil, fmt.Errorf("watch mount namespaces: %w", err)
	}
	var events []history.Event
	for inode, s := range h.spaces {
		// Inodes of namespaces are used again: it is the same namespace if a process stayed in it.
		if !slices.ContainsFunc(s.pids, func(pid int) bool { return slices.Contains(found[inode], pid) }) {
			span := history.Between(h.scanned, bootclock.Now())
			for _, v := range s.volumes {
				events = append(events, goneFact(v, span))
			}
			delete(h.spaces, inode)
		}
	}
	for inode, pids := range found {
		s, known := h.spaces[inode]
		if !known {
			// Its first process may have left the node's own namespace at any time since the last whole scan.
			s = &space{inode: inode, since: h.whole, volumes: map[string]*history.Holding{}}
			h.spaces[inode] = s
		}
		s.pids = pids
		events = append(events, h.read(s, begin, whole)...)
	}
	h.scanned = begin
	if whole {
		h.whole = begin
	}
	h.scans++
	return events, nil
}

// read reads one namespace and returns what changed in it.
func (h *holdings) read(s *space, begin history.Time, whole bool) []history.Event {
	if s.first.PID == 0 {
		first, ok := firstOf(s.pids)
		if !ok {
			return nil // They have all ended; the next scan removes it.
		}
		if strings.HasPrefix(first.Name, runcProcesses) && begin.Sub(first.Start) < settingUp {
			return nil
		}
		s.first = first
	}
	action, since := history.ProcessStarted, s.since
	if since == 0 { // The first scan.
		action, since = history.ProcessPresent, begin
	}
	changed, err := s.mounts.read(s.pids, h.system, whole)
	switch {
	case errors.Is(err, errGone), err != nil && s.failed:
		return nil
	case err != nil:
		s.failed = true
		detail := fmt.Sprintf("mount namespace %d of process %d (%s) cannot be read: %v",
			s.inode, s.first.PID, s.first.Name, err)
		e := lossFact(history.Between(since, bootclock.Now()), detail)
		e.Observer.Name = ObserverHoldings
		return []history.Event{e}
	}
	s.failed = false
	var events []history.Event
	if changed {
		events = s.compare(action, since)
	}
	if len(s.volumes) > 0 && (changed || whole) {
		events = append(events, s.countWriters(begin)...)
	}
	s.since = begin
	return events
}

// compare returns facts of the volumes that came and went.
func (s *space) compare(action history.ProcessAction, since history.Time) []history.Event {
	span := history.Between(since, bootclock.Now())
	var events []history.Event
	held := s.mounts.volumes()
	for key, v := range s.volumes {
		if _, still := held[key]; !still {
			events = append(events, goneFact(v, span))
			delete(s.volumes, key)
		}
	}
	for key, m := range held {
		old := s.volumes[key]
		if old != nil && old.Path == m.Path && old.ReadOnly == m.ReadOnly {
			continue
		}
		now := &history.Holding{
			Action: action, Namespace: s.inode, Identity: m.Identity, Path: m.Path, ReadOnly: m.ReadOnly,
			PID: s.first.PID, Start: s.first.Start, Program: s.first.Name,
			PodUID: s.first.PodUID, Container: s.first.Container,
		}
		if old != nil { // It is mounted elsewhere now, or by another mount.
			now.Action, now.Writing = history.ProcessPresent, old.Writing
		}
		s.volumes[key] = now
		events = append(events, holdingFact(*now, span))
	}
	return events
}

// countWriters counts the files that are open for writing. It returns a fact of each volume that begins or ceases to
// have some, or whose first process changed, for example because runc exited.
func (s *space) countWriters(begin history.Time) []history.Event {
	first, ok, err := probe.Read(s.first.PID)
	if err != nil || !ok || first.Start != s.first.Start {
		first, ok = firstOf(s.pids)
	}
	if ok {
		s.first = first
	}
	devices := s.mounts.devices()
	writing := map[string]int{}
	for _, pid := range s.pids {
		countOpenForWriting(pid, devices, writing)
	}
	var events []history.Event
	for key, v := range s.volumes {
		n := writing[key]
		changed := (n > 0) != (v.Writing > 0) || v.Program != s.first.Name || v.PodUID != s.first.PodUID
		v.Writing, v.Program, v.PID, v.Start = n, s.first.Name, s.first.PID, s.first.Start
		v.PodUID, v.Container = s.first.PodUID, s.first.Container
		if changed {
			now := *v
			now.Action = history.ProcessPresent
			events = append(events, holdingFact(now, history.Between(begin, bootclock.Now())))
		}
	}
	return events
}

func goneFact(v *history.Holding, span history.Span) history.Event {
	last := *v
	last.Action, last.Writing = history.ProcessGone, 0
	return holdingFact(last, span)
}

func holdingFact(h history.Holding, span history.Span) history.Event {
	return history.Event{Kind: history.KindHolding, Span: span, Holding: &h}
}

// firstOf returns the process that was started first; false means that none of them is left.
func firstOf(pids []int) (probe.Process, bool) {
	var first probe.Process
	for _, pid := range pids {
		p, ok, err := probe.Read(pid)
		if err == nil && ok && (first.PID == 0 || p.Start < first.Start) {
			first = p
		}
	}
	return first, first.PID != 0
}
