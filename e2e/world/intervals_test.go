package world

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
)

// drawLife draws a mount whose appearance and end are known as spans of a few nanoseconds.
func drawLife(t *rapid.T) *Mount {
	appeared := rapid.IntRange(0, 20).Draw(t, "appeared")
	appearedWidth := rapid.IntRange(0, 3).Draw(t, "appearedWidth")
	gone := appeared + rapid.IntRange(0, 8).Draw(t, "gone")
	goneWidth := rapid.IntRange(0, 3).Draw(t, "goneWidth")
	l := &Mount{Life: Life{
		Node:      rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node"),
		MaybeFrom: history.Time(appeared), From: history.Time(appeared + appearedWidth),
		To: history.Time(gone), MaybeTo: history.Time(gone + goneWidth),
	}}
	l.MaybeTo = max(l.MaybeTo, l.From) // It ended no earlier than it appeared.
	return l
}

// together reports whether two lives share an instant in every possible course of events, and whether in any.
func together(a, b *Mount) (always, ever bool) {
	always = true
	each := func(l *Mount, do func(from, to history.Time)) {
		for from := l.MaybeFrom; from <= l.From; from++ {
			for to := max(l.To, from); to <= l.MaybeTo; to++ {
				do(from, to)
			}
		}
	}
	each(a, func(aFrom, aTo history.Time) {
		each(b, func(bFrom, bTo history.Time) {
			shared := false
			for at := history.Time(0); at < 40; at++ {
				shared = shared || at >= aFrom && at < aTo && at >= bFrom && at < bTo
			}
			always, ever = always && shared, ever || shared
		})
	})
	return always, ever
}

// TestOverlapsAgainstEveryCourse compares the sweep with trying out every course of events that the spans allow.
func TestOverlapsAgainstEveryCourse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lives := rapid.SliceOfN(rapid.Custom(drawLife), 2, 5).Draw(t, "lives")
		type pair struct{ a, b *Mount }
		found := func(interval func(*Mount) history.Span) map[pair]bool {
			pairs := map[pair]bool{}
			for _, o := range Overlaps(lives, interval, func(a, b *Mount) bool { return a.Node != b.Node }) {
				pairs[pair{o.A, o.B}], pairs[pair{o.B, o.A}] = true, true
			}
			return pairs
		}
		certain, possible := found((*Mount).Certain), found((*Mount).Possible)
		for i, a := range lives {
			for _, b := range lives[i+1:] {
				always, ever := together(a, b)
				if a.Node == b.Node {
					always, ever = false, false
				}
				if certain[pair{a, b}] != always {
					t.Fatalf("certain overlap: %v, in every course: %v\n%+v\n%+v", certain[pair{a, b}], always, *a,
						*b)
				}
				if possible[pair{a, b}] != ever {
					t.Fatalf("possible overlap: %v, in any course: %v\n%+v\n%+v", possible[pair{a, b}], ever, *a, *b)
				}
			}
		}
	})
}

// TestCertainOverlapsAgainstEveryCourse: whatever is said to overlap for certain does so in every course of events in
// which both were there at all; and one that was there within the certain time of another is found.
func TestCertainOverlapsAgainstEveryCourse(t *testing.T) {
	brief := 0
	rapid.Check(t, func(t *rapid.T) {
		lives := rapid.SliceOfN(rapid.Custom(drawLife), 2, 4).Draw(t, "lives")
		for _, l := range lives {
			l.MaybeTo = max(l.MaybeTo, l.From+1)
			l.To = max(l.To, l.From) // As a ledger's end of it.
		}
		found := map[[2]*Mount]bool{}
		for _, o := range CertainOverlaps(lives, func(a, b *Mount) bool { return a.Node != b.Node }) {
			found[[2]*Mount{o.A, o.B}], found[[2]*Mount{o.B, o.A}] = true, true
			if o.Brief {
				brief++
			}
			for aFrom := o.A.MaybeFrom; aFrom <= o.A.From; aFrom++ {
				for aTo := aFrom + 1; aTo <= o.A.MaybeTo; aTo++ {
					for bFrom := o.B.MaybeFrom; bFrom <= o.B.From; bFrom++ {
						for bTo := bFrom + 1; bTo <= o.B.MaybeTo; bTo++ {
							// The earliest end of one that was there for a moment is not known.
							if a, b := o.A.Certain(), o.B.Certain(); a.Length() > 0 && aTo < a.NotAfter ||
								b.Length() > 0 && bTo < b.NotAfter {
								continue
							}
							if max(aFrom, bFrom) >= min(aTo, bTo) {
								t.Fatalf("[%d, %d) and [%d, %d) do not overlap\n%+v\n%+v", aFrom, aTo, bFrom, bTo, *o.A,
									*o.B)
							}
						}
					}
				}
			}
		}
		for _, a := range lives {
			for _, b := range lives {
				inner, outer := a.Possible(), b.Certain()
				if a.Node != b.Node && outer.NotBefore <= inner.NotBefore && inner.NotAfter <= outer.NotAfter &&
					!found[[2]*Mount{a, b}] {
					t.Fatalf("not found:\n%+v\n%+v", *a, *b)
				}
			}
		}
	})
	if brief == 0 {
		t.Error("no brief overlap was drawn")
	}
}

func drawSpan(t *rapid.T) history.Span {
	from := rapid.IntRange(-3, 30).Draw(t, "from")
	return history.Between(history.Time(from), history.Time(from+rapid.IntRange(0, 9).Draw(t, "length")))
}

// TestHolesAgainstEveryInstant compares holes with a test of every instant.
func TestHolesAgainstEveryInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := drawSpan(t)
		watched := rapid.SliceOfN(rapid.Custom(drawSpan), 0, 5).Draw(t, "watched")
		unseen := rapid.SliceOfN(rapid.Custom(drawSpan), 0, 3).Draw(t, "unseen")
		got := map[history.Time]bool{}
		last := bounds.NotBefore - 1
		for _, h := range Holes(bounds, watched, unseen) {
			if h.NotBefore <= last {
				t.Fatalf("a hole from %d touches the one to %d", h.NotBefore, last)
			}
			last = h.NotAfter
			for at := h.NotBefore; at < h.NotAfter; at++ {
				got[at] = true
			}

		}
		in := func(at history.Time, spans []history.Span) bool {
			for _, s := range spans {
				if at >= s.NotBefore && at < s.NotAfter {
					return true
				}
			}
			return false
		}
		want := map[history.Time]bool{}
		for at := bounds.NotBefore; at < bounds.NotAfter; at++ {
			if !in(at, watched) || in(at, unseen) {
				want[at] = true
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}

	})
}

func TestNested(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"/", "/", true}, {"/", "/x", true}, {"/x/y", "/x", true}, {"/x", "/xy", false}, {"/x/a", "/x/b", false},
	} {
		if got := nested(c.a, c.b); got != c.want {
			t.Errorf("nested(%q, %q) = %v", c.a, c.b, got)
		}
	}
}

// TestHoldingThatComesToAPod: a container is runc's, of no pod, before it is the pod's. It may have the volume since
// then, unless a ledger that began in between shows that it is another one with its number.
func TestHoldingThatComesToAPod(t *testing.T) {
	for name, c := range map[string]struct {
		again  bool // The ledger began again at 15.
		action history.ProcessAction
		since  history.Time
	}{
		"":        {false, history.ProcessPresent, 10},
		"listed":  {true, history.ProcessPresent, 10},
		"another": {true, history.ProcessStarted, 20},
	} {
		var h history.History
		add := func(at history.Time, e history.Event) {
			e.ID, e.Span = int64(len(h.Events)+1), history.At(at)
			h.Events = append(h.Events, e)
		}
		says := func(at history.Time, action history.ProcessAction, program, pod string) {
			add(at, history.Event{Kind: history.KindHolding, Holding: &history.Holding{Action: action, Node: "w",
				Boot: "0s", Namespace: 7, Program: program, Identity: history.Identity{Device: "7:1"},
				Path: "/var/lib/mysql", PodUID: pod}})
		}
		on := history.Event{Kind: history.KindObserver, Observer: &history.Observer{Name: holdingsObserver, Node: "w",
			Boot: "0s", State: history.ObserverOn}}
		add(1, on)
		says(10, history.ProcessStarted, "runc", "")
		if c.again {
			add(15, on)
		}
		says(20, c.action, "mysqld", "u")
		says(30, history.ProcessGone, "mysqld", "u")
		all := New(h).Containers().Holdings
		if len(all) != 1 || all[0].Pod != "u" || all[0].MaybeFrom != c.since || all[0].From != 20 || all[0].To != 30 {
			t.Errorf("%s: holdings %+v", name, all)
		}
	}
}
