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

	mu    sync.Mutex
	calls []arrival
	moved chan struct{} // Closed and made anew whenever one comes.
}

// arrival is a CSI call, and when the harness had it.
type arrival struct {
	history.Event
	at history.Time
}

func newFeed(w *rundir.HistoryWriter) *feed {
	return &feed{HistoryWriter: w, moved: make(chan struct{})}
}

// Record hands a fact on.
func (f *feed) Record(e history.Event) {
	f.HistoryWriter.Record(e)
	if e.Kind != history.KindCSI || e.CSI == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, arrival{e, bootclock.Now()})
	close(f.moved)
	f.moved = make(chan struct{})
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
