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
	lookAtSpacesEvery = 250 * time.Millisecond
	// wholeEvery is how many looks there are for a whole one. That takes every process for one that may have changed
	// its namespace, reads again whether volumes can be written to, and counts the files that are open for writing.
	wholeEvery = 4
	// settingUp bounds how long a namespace in which only runc runs is left alone. It begins as a copy of the node's
	// own and has every volume of the node in it until runc has turned to the container's root.
	settingUp     = 2 * time.Second
	runcProcesses = "runc:["
)

// holdings watches the mount namespaces that processes of the node live in, other than the node's own. It holds none of
// them open: a namespace lives as long as its last user, and its volumes stay mounted with it.
type holdings struct {
	own    uint64          // The node's own namespace, by its inode.
	inOwn  map[int]bool    // The processes that lived in it at the last look.
	system map[string]bool // The devices that the node itself lives on.
	spaces map[uint64]*space
	looked history.Time // When the last look began.
	whole  history.Time // When the last whole one began.
	looks  int
}

// space is one mount namespace.
type space struct {
	inode   uint64
	mounts  spaceMounts
	pids    []int
	first   probe.Process // The process that was started first; void until the namespace was looked into.
	since   history.Time  // When the last look began that did not see it, or saw it and did not look into it.
	volumes map[string]*history.Holding
	failed  bool // It was said that it cannot be read.
}

func (l *ledger) watchHoldings(ctx context.Context, begun chan<- struct{}) error {
	h, err := newHoldings()
	if err != nil {
		return err
	}
	begin := bootclock.Now()
	events, err := h.look(begin)
	if err != nil {
		return err
	}
	l.begin(ObserverHoldings, begin, "")
	l.put(events...)
	begun <- struct{}{}
	return l.lookAgain(ctx, ObserverHoldings, begin, lookAtSpacesEvery, func(begin history.Time) error {
		events, err := h.look(begin)
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

// look finds the namespaces and what changed in them since the last look.
func (h *holdings) look(begin history.Time) ([]history.Event, error) {
	whole := h.looks%wholeEvery == 0
	if whole {
		clear(h.inOwn)
	}
	found, err := namespaces(h.own, h.inOwn)
	if err != nil {
		return nil, fmt.Errorf("watch mount namespaces: %w", err)
	}
	var events []history.Event
	before := h.looked
	for inode, s := range h.spaces {
		// Numbers of namespaces are used again: it is the one it was as long as a process stays in it.
		if !slices.ContainsFunc(s.pids, func(pid int) bool { return slices.Contains(found[inode], pid) }) {
			events = append(events, s.leave(before)...)
			delete(h.spaces, inode)
		}
	}
	for inode, pids := range found {
		s, known := h.spaces[inode]
		if !known {
			// Who made it may have left the node's own namespace at any time since that was looked at.
			s = &space{inode: inode, since: h.whole, volumes: map[string]*history.Holding{}}
			h.spaces[inode] = s
		}
		s.pids = pids
		events = append(events, h.lookInto(s, begin, whole)...)
	}
	h.looked = begin
	if whole {
		h.whole = begin
	}
	h.looks++
	return events, nil
}

// lookInto looks into one namespace.
func (h *holdings) lookInto(s *space, begin history.Time, whole bool) []history.Event {
	if s.first.PID == 0 {
		first, ok := firstOf(s.pids)
		if !ok {
			return nil // It is on its way out; the next look says more.
		}
		if strings.HasPrefix(first.Name, runcProcesses) && begin.Sub(first.Start) < settingUp {
			return nil
		}
		s.first = first
	}
	action, since := history.ProcessStarted, s.since
	if since == 0 { // The first look of all.
		action, since = history.ProcessPresent, begin
	}
	changed, err := s.mounts.read(s.pids, h.system, whole)
	switch {
	case errors.Is(err, errGone):
		return nil
	case err != nil && s.failed:
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

// compare says which volumes came and went.
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
		if old != nil { // It was there and is now elsewhere, or another mount of it.
			now.Action, now.Writing = history.ProcessPresent, old.Writing
		}
		s.volumes[key] = now
		events = append(events, holdingFact(*now, span))
	}
	return events
}

// countWriters counts the files that are open for writing, and says so where some are that were not, or none any more.
// A first process that has turned into another program is told as well.
func (s *space) countWriters(begin history.Time) []history.Event {
	if first, ok, err := probe.Read(s.first.PID); err == nil && ok && first.Start == s.first.Start {
		s.first.Name = first.Name
	}
	devices := s.mounts.devices()
	writing := map[string]int{}
	for _, pid := range s.pids {
		countOpenForWriting(pid, devices, writing)
	}
	var events []history.Event
	for key, v := range s.volumes {
		n := writing[key]
		tell := (n > 0) != (v.Writing > 0) || v.Program != s.first.Name
		v.Writing, v.Program = n, s.first.Name
		if tell {
			now := *v
			now.Action = history.ProcessPresent
			events = append(events, holdingFact(now, history.Between(begin, bootclock.Now())))
		}
	}
	return events
}

// leave says that a namespace that has no process any more holds nothing.
func (s *space) leave(since history.Time) []history.Event {
	span := history.Between(since, bootclock.Now())
	var events []history.Event
	for _, v := range s.volumes {
		events = append(events, goneFact(v, span))
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
