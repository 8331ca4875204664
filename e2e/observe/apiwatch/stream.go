package apiwatch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

const (
	firstPause = 100 * time.Millisecond // Between two attempts; doubled up to lastPause.
	lastPause  = 5 * time.Second
	// watchFor is the timeout of a watch on the server. A watch that is still open watchGrace later is dead.
	watchFor   = 4 * time.Minute
	watchGrace = 30 * time.Second
	// mostRaw bounds the recorded JSON of an object, in bytes: pods and nodes have some 10 KiB.
	mostRaw = 512 << 10
)

// stream watches one resource. All but ready and failure belong to the goroutine of run.
type stream struct {
	name     string // The resource.
	from     source
	labels   string // A label query; empty is all objects.
	known    *revisions
	recorder history.Recorder
	log      *slog.Logger

	version  string          // Everything up to this resourceVersion was recorded; empty before a list.
	begun    history.Time    // When the last list was requested.
	blind    bool            // The next list ends a gap.
	gapFrom  history.Time    // When the gap begins.
	lost     string          // The version up to which everything was recorded before the gap.
	why      string          // Why the watch was interrupted; empty if it was not.
	open     bool            // The watch was opened and did not fail.
	received bool            // Something came since the watch was opened.
	objects  map[string]name // The known objects, by UID.

	ready chan struct{} // Closed after the first list.

	failure atomic.Pointer[error] // The last one.
}

type name struct{ namespace, name string }

func newStream(
	resource string, from source, labels string, known *revisions, recorder history.Recorder, log *slog.Logger,
) *stream {
	return &stream{
		name: resource, from: from, labels: labels, known: known, recorder: recorder,
		log: log.With("resource", resource), ready: make(chan struct{}),
	}
}

// run lists once and watches from there on. It resumes a watch that ended. If the server no longer has the version, it
// lists again, and records a gap unless that can be bridged. If the watch is not open at the end, what it missed is a
// gap too.
func (s *stream) run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		s.received = false
		err := s.once(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			s.fail(err)
		}
		if s.received {
			pause = firstPause
		}
		if err == nil && s.received {
			continue
		}
		_ = await.For(ctx, pause) // The loop looks at the end of ctx.
		pause = min(2*pause, lastPause)
	}
	seen := s.begun
	if s.version != "" {
		seen = s.known.seenUpTo(s.version, s.begun)
	}
	switch {
	case s.blind:
		s.say(history.ObserverGap, history.Between(s.gapFrom, bootclock.Now()), s.why)
	case s.version != "" && !s.open:
		s.say(history.ObserverGap, history.Between(seen, bootclock.Now()),
			"the watch was not open at its end: "+cmp.Or(s.why, "it was being opened"))
	}
	s.say(history.ObserverOff, history.Between(seen, bootclock.Now()), "stopped")
}

// fail keeps an error. If the server no longer has the version, the stream is blind until the next list.
func (s *stream) fail(err error) {
	s.log.Debug("the watch was interrupted", "resourceVersion", s.version, "error", err)
	s.failure.Store(&err)
	s.open = false
	s.why = clip(err.Error())
	if s.version != "" && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
		s.gapFrom, s.blind = s.known.seenUpTo(s.version, s.begun), true
		s.version, s.lost = "", s.version
	}
}

func clip(text string) string {
	const most = 300
	return text[:min(len(text), most)]
}

func (s *stream) once(ctx context.Context) error {
	if s.version == "" {
		if err := s.list(ctx); err != nil {
			return fmt.Errorf("list %s: %w", s.name, err)
		}
	}
	if err := s.watch(ctx); err != nil {
		return fmt.Errorf("watch %s from %s: %w", s.name, s.version, err)
	}
	return nil
}

func (s *stream) list(ctx context.Context) error {
	begin := bootclock.Now()
	bounded, cancel := context.WithTimeout(ctx, watchGrace)
	defer cancel()
	list, err := s.from.List(bounded, metav1.ListOptions{LabelSelector: s.labels})
	if err != nil {
		return err
	}
	end := bootclock.Now()
	s.known.add(begin, end, list.GetResourceVersion())
	if s.blind {
		if s.cross(ctx, list.GetResourceVersion()) {
			s.version, s.begun, s.received = list.GetResourceVersion(), begin, true
			s.blind, s.why = false, ""
			return nil
		}
		s.say(history.ObserverGap, history.Between(s.gapFrom, end), s.why)
	}
	s.missing(list, history.Between(s.gapFrom, end))
	s.objects = make(map[string]name, len(list.Items))
	for i := range list.Items {
		s.object(history.VerbListed, &list.Items[i], history.Between(begin, end))
	}
	s.version, s.begun, s.received = list.GetResourceVersion(), begin, true
	detail := fmt.Sprintf("%d listed at resourceVersion %s", len(list.Items), s.version)
	s.say(history.ObserverOn, history.Between(begin, end), detail)
	if !s.blind {
		close(s.ready)
	}
	s.blind, s.why = false, ""
	return nil
}

// missing records the known objects that a list lacks as deleted at some time in the gap before it. Another of the name
// was made after that.
func (s *stream) missing(list *unstructured.UnstructuredList, gap history.Span) {
	listed := map[name]*unstructured.Unstructured{}
	for i := range list.Items {
		o := &list.Items[i]
		listed[name{o.GetNamespace(), o.GetName()}] = o
	}
	for uid, n := range s.objects {
		version, other := list.GetResourceVersion(), listed[n]
		if other != nil && string(other.GetUID()) == uid {
			continue
		}
		if other != nil {
			if v, err := strconv.ParseUint(other.GetResourceVersion(), 10, 64); err == nil {
				version = strconv.FormatUint(v-1, 10)
			}
		}
		s.record(history.Object{
			Verb: history.VerbDeleted, Namespace: n.namespace, Name: n.name, UID: uid, ResourceVersion: version,
		}, gap)
	}
}

// watch records events until the watch ends. The server ends a long watch without an error.
func (s *stream) watch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, watchFor+watchGrace)
	defer cancel()
	seconds := int64(watchFor / time.Second)
	s.open = false
	w, err := s.from.Watch(ctx, metav1.ListOptions{
		LabelSelector: s.labels, ResourceVersion: s.version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	s.open = true
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if err := s.event(e); err != nil {
				return err
			}
		}
	}
}

// event records one event of a watch.
func (s *stream) event(e watch.Event) error {
	now := bootclock.Now()
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	object, ok := e.Object.(*unstructured.Unstructured)
	if !ok || object.GetResourceVersion() == "" {
		detail := clip(fmt.Sprintf("a %s event holds no object: %T", e.Type, e.Object))
		s.say(history.ObserverLoss, history.Between(s.begun, now), detail)
		return nil
	}
	version := object.GetResourceVersion()
	if s.why != "" {
		s.say(history.ObserverOn, history.Between(s.known.seenUpTo(s.version, s.begun), now),
			fmt.Sprintf("went on at resourceVersion %s, nothing was missed; it was interrupted: %s", s.version, s.why))
		s.why = ""
	}
	s.received = true
	switch e.Type {
	case watch.Bookmark:
		s.version = version
		s.say(history.ObserverBeat, history.Between(s.known.seenUpTo(version, s.begun), now), "")
	case watch.Added, watch.Modified, watch.Deleted:
		s.object(history.Verb(e.Type), object, s.known.when(version, s.begun, now))
		s.version = version
	default:
		detail := clip(fmt.Sprintf("an event of unknown type %q", e.Type))
		s.say(history.ObserverLoss, history.Between(s.begun, now), detail)
	}
	return nil
}

// leaveOut removes what no check reads: the managers of fields, and a node's images, which are most of it, are the same
// in every version, and name the registries that the user pulls from.
func (s *stream) leaveOut(object *unstructured.Unstructured) {
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	if s.name == "nodes" {
		unstructured.RemoveNestedField(object.Object, "status", "images")
	}
}

// object records one version of one object.
func (s *stream) object(verb history.Verb, object *unstructured.Unstructured, span history.Span) {
	s.leaveOut(object)
	o := history.Object{
		Verb: verb, Namespace: object.GetNamespace(), Name: object.GetName(), UID: string(object.GetUID()),
		ResourceVersion: object.GetResourceVersion(),
	}
	if verb == history.VerbDeleted {
		delete(s.objects, o.UID)
	} else {
		s.objects[o.UID] = name{o.Namespace, o.Name}
	}
	raw, err := json.Marshal(object.Object)
	switch {
	case err != nil:
		s.say(history.ObserverLoss, span, clip(fmt.Sprintf("%s %q cannot be encoded: %v", s.name, o.Name, err)))
	case len(raw) > mostRaw:
		s.say(history.ObserverLoss, span, fmt.Sprintf("%s %q at %s is not kept whole: it has %d bytes, more than %d",
			s.name, o.Name, o.ResourceVersion, len(raw), mostRaw))
	default:
		o.Raw = raw
	}
	s.record(o, span)
}

func (s *stream) record(o history.Object, span history.Span) {
	o.Resource = s.name
	s.recorder.Record(history.Event{Kind: history.KindObject, Source: "api", Span: span, Object: &o})
}

func (s *stream) say(state history.ObserverState, span history.Span, detail string) {
	s.recorder.Record(history.Event{
		Kind: history.KindObserver, Source: "api", Span: span,
		Observer: &history.Observer{Name: "api/" + s.name, State: state, Detail: detail},
	})
}
