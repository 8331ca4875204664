package world

import (
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
)

// TestAMountWhoseBeginWasLost: a ledger could not write for a time, was started again, and listed a mount. That may
// have appeared since the first fact was lost, whatever the ledger saw afterwards.
func TestAMountWhoseBeginWasLost(t *testing.T) {
	var h history.History
	say := func(state history.ObserverState, from, to history.Time) {
		h.Events = append(h.Events, history.Event{Kind: history.KindObserver, Span: history.Between(from, to),
			Observer: &history.Observer{Name: mountsObserver, Node: "n", Boot: "0s", State: state}})
	}
	say(history.ObserverOn, 1, 1)
	say(history.ObserverBeat, 10, 10)
	say(history.ObserverLoss, 10, 20)
	say(history.ObserverBeat, 21, 21)
	say(history.ObserverGap, 21, 23)
	say(history.ObserverOn, 23, 23)
	h.Events = append(h.Events, history.Event{Kind: history.KindMount, Span: history.At(23),
		Mount: &history.Mount{Action: history.MountPresent, Node: "n", Boot: "0s", MountID: 1}})
	say(history.ObserverBeat, 30, 30)
	life := New(h).Ledger().Lives[0]
	if life.MaybeFrom != 10 || life.From != 23 || life.To != 30 {
		t.Errorf("it is there from %d to %d, and may be from %d on", life.From, life.To, life.MaybeFrom)
	}
}
