package world

import (
	"cmp"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// Life is the lifetime of something on a node: it certainly existed in [From, To), and cannot have existed outside
// [MaybeFrom, MaybeTo).
type Life struct {
	Node               string
	Pod                string // UID of the pod that it belongs to, "" if unknown.
	From, To           history.Time
	MaybeFrom, MaybeTo history.Time
	Present            bool // It existed already when its observer started.
	Ended              bool // Its end was seen.
	Events             []int64

	doubted  bool         // It was seen, and perhaps reached nothing: its disk may have been pulled out before.
	affirmed history.Time // When it was last seen.
	session  int          // Index of the session that saw it last.
}

// Certain is the span in which it certainly existed.
func (l *Life) Certain() history.Span { return history.Span{NotBefore: l.From, NotAfter: l.To} }

// Possible is the span in which it may have existed.
func (l *Life) Possible() history.Span {
	return history.Span{NotBefore: l.MaybeFrom, NotAfter: l.MaybeTo}
}

// Doubted reports whether it may have reached nothing at any time, though it was seen.
func (l *Life) Doubted() bool { return l.doubted }

// affirm adds an event that shows it.
func (l *Life) affirm(e *history.Event, session int) {
	l.affirmed, l.session = max(l.affirmed, e.Span.NotAfter), session
	l.Events = append(l.Events, e.ID)
}

// end adds the event of its end.
func (l *Life) end(e *history.Event) {
	if !l.Ended {
		l.Ended, l.To, l.MaybeTo = true, max(e.Span.NotBefore, l.From), e.Span.NotAfter
		l.Events = append(l.Events, e.ID)
	}
}

// Overlap is two lives that overlap.
type Overlap[T any] struct {
	A, B T // B began later, or at the same time.
	Span history.Span
	// Brief is set if one began and ended so soon that no instant is known at which it was there, and if all of the
	// time in which that can have been, which is Span, the other was there for certain.
	Brief bool
}

// Spanned is what Life has.
type Spanned interface {
	Certain() history.Span
	Possible() history.Span
	Doubted() bool
}

// CertainOverlaps returns the pairs of lives that must be apart and that overlap whatever the true instants are: those
// that were there for certain at one time, then the brief ones.
func CertainOverlaps[T Spanned](lives []T, apart func(a, b T) bool) []Overlap[T] {
	within := func(brief, long T) bool {
		inner, outer := brief.Possible(), long.Certain()
		return !brief.Doubted() && outer.NotBefore <= inner.NotBefore && inner.NotAfter <= outer.NotAfter
	}
	out := Overlaps(lives, T.Certain, apart)
	for _, o := range Overlaps(lives, T.Possible, apart) {
		a, b := o.A.Certain(), o.B.Certain()
		if max(a.NotBefore, b.NotBefore) < min(a.NotAfter, b.NotAfter) {
			continue // It is among the former.
		}
		// The span of this overlap is that of the inner one.
		if o.Brief = within(o.A, o.B) || within(o.B, o.A); o.Brief {
			out = append(out, o)
		}
	}
	return out
}

// Overlaps returns the pairs of lives that must be apart and whose intervals overlap, in the order in which the later
// of the two began. Intervals that only touch do not overlap.
func Overlaps[T any](lives []T, interval func(T) history.Span, apart func(a, b T) bool) []Overlap[T] {
	lives = slices.Clone(lives)
	slices.SortStableFunc(lives, func(a, b T) int { return cmp.Compare(interval(a).NotBefore, interval(b).NotBefore) })
	var out []Overlap[T]
	var active []T
	for _, b := range lives {
		begin := interval(b)
		active = slices.DeleteFunc(active, func(a T) bool { return interval(a).NotAfter <= begin.NotBefore })
		for _, a := range active {
			end := min(interval(a).NotAfter, begin.NotAfter)
			if begin.NotBefore < end && apart(a, b) {
				out = append(out, Overlap[T]{A: a, B: b, Span: history.Span{NotBefore: begin.NotBefore, NotAfter: end}})
			}
		}
		active = append(active, b)
	}
	return out
}

// Holes returns the spans within bounds that are outside watched or inside unseen, sorted and merged.
func Holes(bounds history.Span, watched, unseen []history.Span) []history.Span {
	var holes, out []history.Span
	at := bounds.NotBefore
	for _, w := range sortSpans(watched) {
		holes = append(holes, history.Span{NotBefore: at, NotAfter: w.NotBefore})
		at = max(at, w.NotAfter)
	}
	holes = append(append(holes, history.Span{NotBefore: at, NotAfter: bounds.NotAfter}), unseen...)
	for _, s := range sortSpans(holes) {
		s.NotBefore, s.NotAfter = max(s.NotBefore, bounds.NotBefore), min(s.NotAfter, bounds.NotAfter)
		n := len(out)
		switch {
		case s.NotBefore >= s.NotAfter:
		case n > 0 && s.NotBefore <= out[n-1].NotAfter:
			out[n-1].NotAfter = max(out[n-1].NotAfter, s.NotAfter)
		default:
			out = append(out, s)
		}
	}
	return out
}

func sortSpans(spans []history.Span) []history.Span {
	return slices.SortedFunc(slices.Values(spans), func(a, b history.Span) int {
		return cmp.Or(cmp.Compare(a.NotBefore, b.NotBefore), cmp.Compare(a.NotAfter, b.NotAfter))
	})
}

// Lasting renders the length of a span, rounded to the millisecond from one second on.
func Lasting(s history.Span) string {
	if d := s.Length(); d >= time.Second {
		return d.Round(time.Millisecond).String()
	}
	return s.Length().String()
}
