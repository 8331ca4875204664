package trial

import (
	"slices"
	"sync"

	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/history"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// feed hands facts on to the history, and keeps those that a step may wait for.
type feed struct {
	*rundir.HistoryWriter

	mu      sync.Mutex
	calls   []arrival
	sights  []sighting
	going   map[string]bool // The pods that were told to end, by their uids.
	stirred history.Time    // When the harness last had that a pod was made, deleted, or told to end.
	moved   chan struct{}   // Closed and made anew whenever something is kept.
}

// arrival is a CSI call, and when the harness had it.
type arrival struct {
	history.Event
	at history.Time
}

func newFeed(w *rundir.HistoryWriter) *feed {
	return &feed{HistoryWriter: w, going: map[string]bool{}, moved: make(chan struct{})}
}

// Record hands a fact on.
func (f *feed) Record(e history.Event) {
	f.HistoryWriter.Record(e)
	call := e.Kind == history.KindCSI && e.CSI != nil
	sight, seen := sightOf(e)
	if !call && !seen {
		return
	}
	now := bootclock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if call {
		f.calls = append(f.calls, arrival{e, now})
	} else {
		sight.at = now
		f.keep(sight)
	}
	close(f.moved)
	f.moved = make(chan struct{})
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

// call returns the first CSI call for which is holds, and what to wait for when there is none.
func (f *feed) call(is func(arrival) bool) (arrival, bool, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.calls, is); i >= 0 {
		return f.calls[i], true, nil
	}
	return arrival{}, false, f.moved
}

// sight returns the first sighting for which is holds; when there is none, the last of the same object, if there is
// one, and what to wait for.
func (f *feed) sight(of, is func(sighting) bool) (found sighting, ok bool, moved <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.sights {
		if !of(s) {
			continue
		}
		found = s
		if is(s) {
			return s, true, nil
		}
	}
	return found, false, f.moved
}

// lastStir returns when the pods last stirred, and what to wait for to hear of more.
func (f *feed) lastStir() (history.Time, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stirred, f.moved
}
