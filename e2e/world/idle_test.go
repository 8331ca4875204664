package world

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/history"
)

// TestNothingRanBeforeTheRuntime has a node boot so slowly that its observers start thirteen seconds after PID 1. The
// mount ledger says that neither runtime nor kubelet ran until then, so there was no container to miss.
func TestNothingRanBeforeTheRuntime(t *testing.T) {
	sec := func(s float64) history.Time { return history.Time(s * float64(time.Second)) }
	on := func(name, detail string, at float64) history.Event {
		return history.Event{Kind: history.KindObserver, Span: history.At(sec(at)), Observer: &history.Observer{
			Name: name, Node: "n", Boot: "100.000s", State: history.ObserverOn, Detail: detail,
		}}
	}
	for detail, want := range map[string][]history.Span{
		"fanotify; before containerd, kubelet: none of them ran yet": {
			history.Between(sec(113), sec(113)), history.Between(sec(100), sec(112.9)),
		},
		"fanotify; after kubelet (pid 9)": {history.Between(sec(113), sec(113))},
	} {
		h := history.History{Events: []history.Event{on(mountsObserver, detail, 112.9), on(processesObserver, "", 113)}}
		none := func(*Coverage, *history.Event) *Session { return nil }
		got := watched(readCoverage(New(h), processesObserver, history.KindProcess, none).Sessions["n"], &Trial{})
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: watched (-want +got):\n%s", detail, d)
		}
	}
}
