package trial

import (
	"slices"
	"strings"
	"sync"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// feed hands facts on to the history, and keeps those that a step may wait for.
type feed struct {
	*rundir.HistoryWriter
	watches  []watch // What the plan awaits of the fields of objects.
	counting bool    // The plan awaits a number of commits.

	mu      sync.Mutex
	calls   []arrival
	stages  []arrival // Of faults.
	mounts  []mounting
	commits []commit
	acked   map[string]int  // Operations, by instance.
	hurt    map[string]bool // The instances that a fault has hurt since the clients were last waited for.
	sights  []sighting
	rises   []rise
	paths   map[mountKey]string // Where what is mounted below the kubelet's directory is.
	matched map[matchKey]bool
	going   map[string]bool // The pods that were told to end, by their uids.
	stirred history.Time    // When the harness last had that a pod was made, deleted, or told to end.
	moved   chan struct{}   // Closed and made anew whenever something is kept.
}

// arrival is a fact, and when the harness had it.
type arrival struct {
	history.Event
	at history.Time
}

// commit is an acknowledged insert.
type commit struct {
	span history.Span
	at   history.Time
}

// watch is what the step of a number awaits of the fields of objects.
type watch struct {
	step    int
	matcher plan.Matcher
}

type matchKey struct {
	step int
	uid  string
}

// rise is an object that came to match.
type rise struct {
	step int
	name string
	span history.Span
	at   history.Time
}

type mountKey struct {
	node, boot string
	id         uint64
}

// mounting is a mount below the kubelet's directory that began or ended.
type mounting struct {
	node, path string
	attach     bool
	span       history.Span
	at         history.Time
}

func newFeed(w *rundir.HistoryWriter, p plan.Plan) *feed {
	f := &feed{
		HistoryWriter: w, going: map[string]bool{}, moved: make(chan struct{}), paths: map[mountKey]string{},
		matched: map[matchKey]bool{}, acked: map[string]int{}, hurt: map[string]bool{},
	}
	for _, s := range p.AllSteps() {
		switch {
		case s.Await == nil:
		case s.Await.For == plan.AwaitCommits:
			f.counting = true
		case s.Await.For == plan.AwaitObject && s.Await.Object != nil:
			if m, err := s.Await.Object.Compile(); err == nil { // Another is not legal, and never comes.
				f.watches = append(f.watches, watch{s.N, m})
			}
		}
	}
	return f
}

// Record hands a fact on.
func (f *feed) Record(e history.Event) {
	f.HistoryWriter.Record(e)
	f.see(e, bootclock.Now())
}

// see keeps a fact that a step may wait for.
func (f *feed) see(e history.Event, now history.Time) {
	sight, isSight := sightOf(e)
	matches := f.matches(e)
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := false
	if e.Kind == history.KindOp && e.Op != nil && e.Op.Stage == history.StageOK {
		f.acked[e.Op.Instance]++
	}
	if isSight {
		sight.at = now
		f.keep(sight)
		kept = true
	}
	for step, holds := range matches {
		key := matchKey{step, e.Object.UID}
		if holds && !f.matched[key] {
			f.rises = append(f.rises, rise{step, e.Object.Name, e.Span, now})
			kept = true
		}
		f.matched[key] = holds
	}
	switch {
	case e.Kind == history.KindCSI && e.CSI != nil:
		f.calls = append(f.calls, arrival{e, now})
	case e.Kind == history.KindFault && e.Fault != nil:
		f.stages = append(f.stages, arrival{e, now})
	case e.Kind == history.KindMount && e.Mount != nil && f.mounted(*e.Mount, e.Span, now):
	case f.counting && e.Kind == history.KindOp && e.Op != nil && e.Op.F == history.OpInsert &&
		e.Op.Stage == history.StageOK:
		f.commits = append(f.commits, commit{e.Span, now})
	case !kept:
		return
	}
	close(f.moved)
	f.moved = make(chan struct{})
}

// matches holds an object against what the plan awaits of such objects, by the numbers of the steps.
func (f *feed) matches(e history.Event) map[int]bool {
	if e.Kind != history.KindObject || e.Object == nil {
		return nil
	}
	var matches map[int]bool
	for _, w := range f.watches {
		if !w.matcher.Of(e.Object.Resource, e.Object.Name) {
			continue
		}
		if matches == nil {
			matches = map[int]bool{}
		}
		matches[w.step] = w.matcher.Holds(e.Object.Raw, e.Object.Verb == history.VerbDeleted)
	}
	return matches
}

// mounted keeps a mount that began or ended, and reports whether it did. The caller holds the lock.
func (f *feed) mounted(m history.Mount, span history.Span, now history.Time) bool {
	key := mountKey{m.Node, m.Boot, m.MountID}
	path, known := f.paths[key]
	switch {
	case m.Action == history.MountDetach && known:
		delete(f.paths, key)
	case m.Action != history.MountDetach && strings.HasPrefix(m.Path, "/var/lib/kubelet/"):
		f.paths[key], path = m.Path, m.Path
		if m.Action == history.MountPresent {
			return false
		}
	default:
		return false
	}
	f.mounts = append(f.mounts, mounting{m.Node, path, m.Action == history.MountAttach, span, now})
	return true
}

// keep takes a sighting in. The caller holds the lock.
func (f *feed) keep(s sighting) {
	f.sights = append(f.sights, s)
	if s.resource != pods {
		return
	}
	if s.verb != history.VerbModified || s.deleting && !f.going[s.uid] {
		f.stirred = s.at
	}
	if s.deleting {
		f.going[s.uid] = true
	}
}

// hurts remembers that a fault hurt an instance.
func (f *feed) hurts(instance string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hurt[instance] = true
}

// victims returns how many operations those have acknowledged that were hurt, and forgets that they were.
func (f *feed) victims() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	acked := map[string]int{}
	for instance := range f.hurt {
		acked[instance] = f.acked[instance]
	}
	clear(f.hurt)
	return acked
}

// acknowledged returns how many operations an instance has acknowledged.
func (f *feed) acknowledged(instance string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acked[instance]
}

// look looks for something in what was kept, and returns what to wait for when it is not there. Find must not keep
// anything of the feed.
func (f *feed) look(find func() bool) (found bool, moved <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return find(), f.moved
}

// nth returns the n-th of those for which is holds, counted from 1; a count of 0 is the first.
func nth[T any](list []T, count int, is func(T) bool) (T, bool) {
	for i := range list {
		if !is(list[i]) {
			continue
		}
		if count--; count <= 0 {
			return list[i], true
		}
	}
	var none T
	return none, false
}

// nthSight returns the sighting by which an object has come into a state for the n-th time; when there is none, the
// last one of what is meant. The caller holds the lock.
func (f *feed) nthSight(count int, of, is func(sighting) bool) (found sighting, ok bool) {
	was := map[string]bool{}
	for _, s := range f.sights {
		if !of(s) {
			continue
		}
		found = s
		so := is(s)
		if so && !was[s.uid] {
			if count--; count <= 0 {
				return s, true
			}
		}
		was[s.uid] = so
	}
	return found, false
}

// lastStir returns when the pods last stirred, and what to wait for to hear of more.
func (f *feed) lastStir() (history.Time, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stirred, f.moved
}

// faultFailed returns the error of a fault that has failed, if it has. The caller holds the lock.
func (f *feed) faultFailed(step int) (string, bool) {
	i := slices.IndexFunc(f.stages, func(e arrival) bool {
		return e.Fault.Step == step && e.Fault.Stage == history.StageFaultFailed
	})
	if i < 0 {
		return "", false
	}
	return f.stages[i].Fault.Error, true
}
