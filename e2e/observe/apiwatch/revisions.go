package apiwatch

import (
	"strconv"
	"sync"

	"github.com/seatrial/seatrial/chaos/history"
)

// revisions knows when which resourceVersion was current. A list with no resourceVersion is answered with the newest
// one: a change with a higher one was made after the list was asked for, a change with this or a lower one before the
// answer was there. This bounds a change from both sides without any clock but ours, and however late its event came.
// It holds for all resources that share one etcd, and that is the case unless a cluster keeps its events elsewhere.
type revisions struct {
	mu      sync.Mutex
	anchors []anchor
}

// anchor is one list: asked for at from, answered at to with version.
type anchor struct {
	from, to history.Time
	version  uint64
}

// mostAnchors bounds what is remembered: at one anchor a second about 17 minutes.
const mostAnchors = 1024

func (r *revisions) add(from, to history.Time, version string) {
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return // It bounds nothing.
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.anchors) >= mostAnchors {
		r.anchors = append(r.anchors[:0], r.anchors[mostAnchors/4:]...)
	}
	r.anchors = append(r.anchors, anchor{from, to, v})
}

// when bounds the time at which the change with a version was made; it came at received, and not before oldest.
func (r *revisions) when(version string, oldest, received history.Time) history.Span {
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return history.Between(oldest, received)
	}
	span := history.Span{NotBefore: oldest, NotAfter: received}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.anchors {
		if a.version < v {
			span.NotBefore = max(span.NotBefore, a.from)
		} else {
			span.NotAfter = min(span.NotAfter, a.to)
		}
	}
	return history.Between(span.NotBefore, span.NotAfter)
}

// seenUpTo returns a moment up to which everything is known to one who knows all changes up to a version, and oldest
// when nothing better is known.
func (r *revisions) seenUpTo(version string, oldest history.Time) history.Time {
	v, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return oldest
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.anchors {
		if a.version <= v {
			oldest = max(oldest, a.from)
		}
	}
	return oldest
}
