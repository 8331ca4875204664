package world

import (
	"cmp"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// Life is the time of something on a node, as intervals: it was certainly there in [From, To) and can only have been
// there in [MaybeFrom, MaybeTo).
type Life struct {
	Node               string
	Pod                string // The uid of the pod it is of or for, "" where that is not known.
	From, To           history.Time
	MaybeFrom, MaybeTo history.Time
	Present            bool // It was there already when its observer began to look.
	Ended              bool // Its end was seen.
	Events             []int64

	affirmed history.Time
	session  int // The session of the observer that saw it last.
}

// Certain is when it was certainly there.
func (l *Life) Certain() history.Span { return history.Span{NotBefore: l.From, NotAfter: l.To} }

// Possible is when it can have been there.
func (l *Life) Possible() history.Span {
	return history.Span{NotBefore: l.MaybeFrom, NotAfter: l.MaybeTo}
}

// affirm takes in a fact that shows it.
func (l *Life) affirm(e *history.Event, session int) {
	l.affirmed, l.session = max(l.affirmed, e.Span.NotAfter), session
	l.Events = append(l.Events, e.ID)
}

// end takes in the fact of its end.
func (l *Life) end(e *history.Event) {
	if !l.Ended {
		l.Ended, l.To, l.MaybeTo = true, max(e.Span.NotBefore, l.From), e.Span.NotAfter
		l.Events = append(l.Events, e.ID)
	}
}

// Overlap is two lives that share more than an end.
type Overlap[T any] struct {
	A, B T // B began later.
	Span history.Span
}

// Overlaps returns the pairs of lives that are apart by the given rule and whose intervals share more than an end, in
// the order in which the later of the two began.
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
				out = append(out, Overlap[T]{a, b, history.Span{NotBefore: begin.NotBefore, NotAfter: end}})
			}
		}
		active = append(active, b)
	}
	return out
}

// Holes returns, in order and joined where they touch, the spans within bounds that are not in watched or are in
// unseen.
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

// Lasting renders the length of a span, without what is of no account.
func Lasting(s history.Span) string {
	if d := s.Length(); d >= time.Second {
		return d.Round(time.Millisecond).String()
	}
	return s.Length().String()
}
