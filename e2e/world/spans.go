package world

import (
	"cmp"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// longest returns the longest of spans.
func longest(spans []history.Span) history.Span {
	var long history.Span
	for _, s := range spans {
		if s.Length() > long.Length() {
			long = s
		}
	}
	return long
}

// Holes returns, in order and joined where they touch, the spans within bounds that are not in watched or are in
// unseen.
func Holes(bounds history.Span, watched, unseen []history.Span) []history.Span {
	var out []history.Span
	add := func(from, to history.Time) {
		from, to = max(from, bounds.NotBefore), min(to, bounds.NotAfter)
		if from < to {
			out = append(out, history.Span{NotBefore: from, NotAfter: to})
		}
	}
	at := bounds.NotBefore
	for _, w := range sortSpans(watched) {
		add(at, w.NotBefore)
		at = max(at, w.NotAfter)
	}
	add(at, bounds.NotAfter)
	for _, u := range unseen {
		add(u.NotBefore, u.NotAfter)
	}
	return joinSpans(out)
}

func sortSpans(spans []history.Span) []history.Span {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b history.Span) int {
		return cmp.Or(cmp.Compare(a.NotBefore, b.NotBefore), cmp.Compare(a.NotAfter, b.NotAfter))
	})
	return spans
}

// joinSpans makes one of spans that touch.
func joinSpans(spans []history.Span) []history.Span {
	var out []history.Span
	for _, s := range sortSpans(spans) {
		if n := len(out); n > 0 && s.NotBefore <= out[n-1].NotAfter {
			out[n-1].NotAfter = max(out[n-1].NotAfter, s.NotAfter)
			continue
		}
		out = append(out, s)
	}
	return out
}

// Lasting renders the length of a span, without what is of no account.
func Lasting(s history.Span) string {
	if d := s.Length(); d >= time.Second {
		return d.Round(time.Millisecond).String()
	}
	return s.Length().String()
}
