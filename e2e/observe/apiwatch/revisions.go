package apiwatch

import (
	"strconv"
	"sync"

	"github.com/seatrial/seatrial/chaos/history"
)

// revisions bounds the time of a change by its resourceVersion. A list without a resourceVersion returns the newest
// one: a change with a higher version was made after the request, a change with this or a lower one before the answer.
// This needs no clock but ours, however late the event came. It holds for all resources in one etcd; a large cluster
// keeps its events, or its leases, in another (kube-apiserver --etcd-servers-overrides).
type revisions struct {
	mu      sync.Mutex
	anchors []anchor
}

// anchor is one list: requested at from, answered at to with version.
type anchor struct {
	from, to history.Time
	version  uint64
}

// mostAnchors bounds the anchors kept: about 17 minutes at one a second.
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

// when returns the span in which the change with a version was made: after oldest, before received.
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

// seenUpTo returns a moment before which every change has this or a lower version, at least oldest.
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
