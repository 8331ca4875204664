package world

import (
	"cmp"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

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
