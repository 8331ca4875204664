package check_test

import (
	"bytes"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/world"
)

// watching is a trial with at least that many events of the API watch: a StatefulSet of three pods is updated, scaled
// down and up, and rolled back, again and again. Padding makes each object as large as real ones.
func watching(events, padding int) history.History {
	w := historytest.Web(historytest.SetSpec{Replicas: 3})
	w.Up(0, 1, 2)
	begin := w.Now
	w.Change(image("v2")).Replace(2, 1, 0).Unready(1).Ready(1).Change(replicas(1)).Away(2,
		1).Change(replicas(3)).Up(1, 2)
	w.Change(image("v1")).Replace(2, 1, 0)
	length := time.Duration((w.Now - begin) * float64(time.Second))
	h := w.Told(0.5)
	pad := []byte(`"status":{"padding":"` + strings.Repeat("x", padding) + `",`)
	stamps := regexp.MustCompile(`"lastTransitionTime":"[^"]*",`)
	generation := regexp.MustCompile(`"(observedG|g)eneration":([0-9]+)`)
	var head, round, tail []history.Event
	for _, e := range h.Events {
		if e.Object != nil { // Timestamps and generations would be the same in each round.
			o := *e.Object
			o.Raw = stamps.ReplaceAll(o.Raw, nil)
			e.Object = &o
		}
		if e.Object != nil && padding > 0 {
			o := *e.Object
			o.Raw = []byte(strings.Replace(string(o.Raw), `"status":{`, string(pad), 1))
			e.Object = &o
		}
		switch {
		case e.Object == nil && e.Span.NotAfter > historytest.At(1) && e.Kind != history.KindPlan:
			tail = append(tail, e)
		case e.Span.NotAfter < historytest.At(begin-0.5):
			head = append(head, e)
		case e.Object != nil:
			round = append(round, e)
		}
	}
	const rounds = 4 // Changes of the demand in each.
	all, version, n := head, 100_000, 0
	for ; len(all) < events; n++ {
		for _, e := range round {
			version++
			o := *e.Object
			o.ResourceVersion = strconv.Itoa(version)
			if o.Resource == "statefulsets" {
				o.Raw = generation.ReplaceAllFunc(o.Raw, func(text []byte) []byte {
					i := bytes.IndexByte(text, ':') + 1
					g, _ := strconv.Atoi(string(text[i:]))
					return strconv.AppendInt(text[:i:i], int64(g+n*rounds), 10)
				})
			}
			if o.Resource == "pods" { // Of three pods each round begins with those with which the last one ended.
				o.UID = uidOf(h, round, e, n)
			}
			e.Object = &o
			shift := time.Duration(n) * length
			e.Span = history.Between(e.Span.NotBefore.Add(shift), e.Span.NotAfter.Add(shift))
			all = append(all, e)
		}
	}
	for _, e := range tail {
		shift := time.Duration(n-1) * length
		e.Span = history.Between(e.Span.NotBefore.Add(shift), e.Span.NotAfter.Add(shift))
		all = append(all, e)
	}
	for i := range all {
		all[i].ID = int64(i + 1)
	}
	return history.History{Events: all}
}

// uidOf gives a pod of a round its uid: that of the last pod of its name in the round before, until it ends.
func uidOf(h history.History, round []history.Event, e history.Event, n int) string {
	first, last := "", ""
	for i := range h.Events {
		if o := h.Events[i].Object; o != nil && o.Resource == "pods" && o.Name == e.Object.Name {
			if first == "" {
				first = o.UID
			}
			last = o.UID
		}
	}
	switch {
	case e.Object.UID == first && n == 0:
		return first
	case e.Object.UID == first:
		return fmt.Sprintf("%s/%d", last, n-1)
	}
	return fmt.Sprintf("%s/%d", e.Object.UID, n)
}

// BenchmarkWatch judges the API watch of a StatefulSet with every check: a million events must take less than 5 s and
// 500 MB, and at most 12 times as long as a tenth of them.
func BenchmarkWatch(b *testing.B) {
	for _, events := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			h := watching(events, 0)
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				judgeWatched(b, h)
			}
			perEvent(b, len(h.Events), began)
		})
	}
}

// BenchmarkWatchLarge is BenchmarkWatch with objects of some 5 KiB, as pods are.
func BenchmarkWatchLarge(b *testing.B) {
	h := watching(100_000, 4096)
	b.ReportAllocs()
	began := processorTime(b)
	for b.Loop() {
		judgeWatched(b, h)
	}
	perEvent(b, len(h.Events), began)
}

// BenchmarkStalls looks for what stood still in the same trial, as every report does.
func BenchmarkStalls(b *testing.B) {
	for _, events := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			w := world.New(watching(events, 0))
			w.Objects()
			began := processorTime(b)
			for b.Loop() {
				explain.Spells(w, 0, w.Trialled(), explain.DefaultBound, 5)
			}
			perEvent(b, len(w.Events), began)
		})
	}
}

func judgeWatched(t testing.TB, h history.History) {
	for _, res := range check.Run(h, check.All()).Results {
		if strings.HasPrefix(res.Check, "set-") && res.Verdict != check.Pass {
			t.Fatalf("%s: %s: %.2000s", res.Check, res.Verdict, fmt.Sprintf("%+v", res))
		}
	}
}

// TestWatching holds that the trial of BenchmarkWatch passes.
func TestWatching(t *testing.T) { judgeWatched(t, watching(2000, 100)) }

// TestWatchingInLittleMemory judges 20,000 such events and bounds the bytes that each allocates: each text that objects
// share must be decoded once.
func TestWatchingInLittleMemory(t *testing.T) {
	const events, most = 20_000, 550 // Bytes an event; 482 are seen, and 528 with the race detector.
	h := watching(events, 0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	judgeWatched(t, h)
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / events; each > most {
		t.Errorf("%d bytes for each event, at most %d", each, most)
	}
}
