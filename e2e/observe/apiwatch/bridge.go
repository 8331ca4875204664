package apiwatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

const (
	// mostBridged bounds how many versions are listed one by one. A small cluster makes some 2 a second, and a quiet
	// resource gets a bookmark with one once a minute (k8s.io/apiserver, cacher).
	mostBridged = 600
	// bridgedAtOnce is how many are listed concurrently.
	bridgedAtOnce = 8
)

// errTooFar means that there are more versions between two than mostBridged.
var errTooFar = errors.New("too many versions")

// bridge returns the changes of the resource after the version from, up to the version to, from a list at every version
// between them. A restarted API server does not have the versions before, and ends a watch from one of them. etcd has
// them for at least five minutes (kube-apiserver --etcd-compaction-interval), and lists at exactly one of them
// (Kubernetes API Concepts, resourceVersionMatch=Exact). Every write to etcd makes a version of its own, so nothing can
// come and go between two of them.
func (s *stream) bridge(ctx context.Context, from, to string) ([]watch.Event, error) {
	first, err := strconv.ParseUint(from, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("resourceVersion %q is no number: %w", from, err)
	}
	last, err := strconv.ParseUint(to, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("resourceVersion %q is no number: %w", to, err)
	}
	if last < first || last-first > mostBridged {
		return nil, fmt.Errorf("%w: from %d to %d, at most %d are asked for", errTooFar, first, last, mostBridged)
	}
	before, err := s.at(ctx, first)
	if err != nil {
		return nil, err
	}
	var changes []watch.Event
	for v := first + 1; v <= last; {
		lists := make([]map[string]*unstructured.Unstructured, min(bridgedAtOnce, last-v+1))
		group, ctx := errgroup.WithContext(ctx)
		for i := range lists {
			group.Go(func() (err error) {
				lists[i], err = s.at(ctx, v+uint64(i))
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		for _, after := range lists {
			changes = append(changes, between(before, after, strconv.FormatUint(v, 10))...)
			before = after
			v++
		}
	}
	return changes, nil
}

// at returns the objects at a version, by UID.
func (s *stream) at(ctx context.Context, version uint64) (map[string]*unstructured.Unstructured, error) {
	v := strconv.FormatUint(version, 10)
	ctx, cancel := context.WithTimeout(ctx, watchGrace)
	defer cancel()
	list, err := s.from.List(ctx, metav1.ListOptions{
		LabelSelector: s.labels, ResourceVersion: v, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
	})
	if err != nil {
		return nil, fmt.Errorf("list %s at resourceVersion %s: %w", s.name, v, err)
	}
	if got := list.GetResourceVersion(); got != v {
		return nil, fmt.Errorf("list %s at resourceVersion %s: the answer is of %s", s.name, v, got)
	}
	objects := make(map[string]*unstructured.Unstructured, len(list.Items))
	for i := range list.Items {
		objects[string(list.Items[i].GetUID())] = &list.Items[i]
	}
	return objects, nil
}

// between returns the changes from one version to the next, as a watch would have sent them. There is at most one. A
// deletion comes first: its name may be used again.
func between(before, after map[string]*unstructured.Unstructured, version string) []watch.Event {
	var changes []watch.Event
	for uid, o := range before {
		if after[uid] == nil {
			gone := o.DeepCopy()
			gone.SetResourceVersion(version) // A watch sends the last state, with the version of the deletion.
			changes = append(changes, watch.Event{Type: watch.Deleted, Object: gone})
		}
	}
	for uid, o := range after {
		switch was := before[uid]; {
		case was == nil:
			changes = append(changes, watch.Event{Type: watch.Added, Object: o})
		case was.GetResourceVersion() != o.GetResourceVersion():
			changes = append(changes, watch.Event{Type: watch.Modified, Object: o})
		}
	}
	return changes
}

// cross bridges the gap before a new list and records the changes in it. It reports whether that was possible.
func (s *stream) cross(ctx context.Context, to string) bool {
	changes, err := s.bridge(ctx, s.lost, to)
	if err != nil {
		s.log.Debug("the gap could not be bridged", "from", s.lost, "to", to, "error", err)
		s.why = clip(s.why + "; " + err.Error())
		return false
	}
	now := bootclock.Now()
	s.say(history.ObserverOn, history.Between(s.gapFrom, now),
		fmt.Sprintf("went on at resourceVersion %s, nothing was missed, as every version since %s was asked for; it "+
			"was interrupted: %s", to, s.lost, s.why))
	for _, e := range changes {
		if o, ok := e.Object.(*unstructured.Unstructured); ok {
			s.object(history.Verb(e.Type), o, s.known.when(o.GetResourceVersion(), s.begun, now))
		}
	}
	return true
}
