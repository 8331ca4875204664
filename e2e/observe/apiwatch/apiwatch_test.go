package apiwatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api is a source that a test plays by hand.
type api struct {
	mu      sync.Mutex
	list    unstructured.UnstructuredList
	listErr error
	lists   int
	opened  []string // The resourceVersion of every watch.
	openErr error
	now     *watch.FakeWatcher
}

func (a *api) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lists++
	if a.listErr != nil {
		return nil, a.listErr
	}
	return a.list.DeepCopy(), nil
}

func (a *api) Watch(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !opts.AllowWatchBookmarks || opts.TimeoutSeconds == nil {
		return nil, errors.New("want bookmarks and a timeout")
	}
	a.opened = append(a.opened, opts.ResourceVersion)
	if a.openErr != nil {
		return nil, a.openErr
	}
	a.now = watch.NewFakeWithChanSize(100, false)
	return a.now, nil
}

func (a *api) set(listErr, openErr error, version string, items ...unstructured.Unstructured) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listErr, a.openErr = listErr, openErr
	a.list = unstructured.UnstructuredList{Items: items}
	a.list.SetResourceVersion(version)
}

func (a *api) send(events ...watch.Event) {
	for _, e := range events {
		a.now.Action(e.Type, e.Object)
	}
	synctest.Wait()
}

func pod(name, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
			"name": name, "namespace": "trial", "uid": "uid-" + name, "resourceVersion": version,
			"managedFields": []any{map[string]any{"manager": "somebody"}},
		},
	}}
}

func added(name, version string) watch.Event {
	return watch.Event{Type: watch.Added, Object: pod(name, version)}
}

func bookmark(version string) watch.Event {
	o := pod("", version)
	return watch.Event{Type: watch.Bookmark, Object: o}
}

// kept is a Recorder that keeps what it is given.
type kept struct {
	mu     sync.Mutex
	events []history.Event
}

func (k *kept) Record(e history.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

// words renders what was recorded, one short line each.
func (k *kept) words() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var words []string
	for _, e := range k.events {
		switch {
		case e.Object != nil:
			words = append(words, string(e.Object.Verb)+" "+e.Object.Name+" "+e.Object.ResourceVersion)
		case e.Observer != nil:
			words = append(words, string(e.Observer.State))
		}
	}
	return words
}

func (k *kept) state(state history.ObserverState) []history.Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(k.events), func(e history.Event) bool {
		return e.Observer == nil || e.Observer.State != state
	})
}

// play runs one stream of pods against a in a bubble and stops it at the end.
func play(t *testing.T, a *api, script func(t *testing.T, w *Watcher, k *kept)) *kept {
	t.Helper()
	return playFrom(t, a, script)
}

// playFrom runs one stream of pods against any source.
func playFrom(t *testing.T, a source, script func(t *testing.T, w *Watcher, k *kept)) *kept {
	t.Helper()
	k := &kept{}
	synctest.Test(t, func(t *testing.T) {
		known := &revisions{}
		s := newStream("pods", a, "", known, k, slog.New(slog.DiscardHandler))
		quiet := &api{}
		w := start(t.Context(), []*stream{s}, map[*revisions]source{known: quiet})
		synctest.Wait()
		script(t, w, k)
		w.Stop()
	})
	for _, e := range k.events {
		if e.Span.NotAfter < e.Span.NotBefore || e.Source != "api" {
			t.Errorf("source %q, span %+v: %+v %+v", e.Source, e.Span, e.Object, e.Observer)
		}
		if e.Object != nil && strings.Contains(string(e.Object.Raw), "managedFields") {
			t.Errorf("managedFields on record: %s", e.Object.Raw)
		}
	}
	return k
}

func want(t *testing.T, k *kept, words ...string) {
	t.Helper()
	if diff := cmp.Diff(words, k.words()); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
}

func TestEveryEventIsOnRecord(t *testing.T) {
	t.Parallel()
	a := &api{}
	a.set(nil, nil, "10", *pod("a", "3"))
	k := play(t, a, func(t *testing.T, w *Watcher, _ *kept) {
		if err := w.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		a.send(added("b", "11"), watch.Event{Type: watch.Modified, Object: pod("b", "12")},
			bookmark("15"), watch.Event{Type: watch.Deleted, Object: pod("a", "16")})
	})
	want(t, k, "LISTED a 3", "on", "ADDED b 11", "MODIFIED b 12", "beat", "DELETED a 16", "off")
	if o := k.events[2].Object; o.Resource != "pods" || o.Namespace != "trial" || o.UID != "uid-b" || len(o.Raw) == 0 {
		t.Errorf("object %+v", o)
	}
}

func TestAClosedWatchGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	a := &api{}
	a.set(nil, nil, "10")
	k := play(t, a, func(_ *testing.T, _ *Watcher, _ *kept) {
		a.send(added("a", "11"))
		a.now.Stop()
		synctest.Wait()
		a.send(bookmark("20"))
		a.now.Stop()
		synctest.Wait()
		a.send(watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(errors.New("boom")).ErrStatus})
		time.Sleep(lastPause)
		synctest.Wait()
		a.send(added("b", "21"))
	})
	want(t, k, "on", "ADDED a 11", "beat", "on", "ADDED b 21", "off")
	if diff := cmp.Diff([]string{"10", "11", "20", "20"}, a.opened); diff != "" {
		t.Errorf("watches were opened at (-want +got):\n%s", diff)
	}
	again := k.state(history.ObserverOn)[1].Observer.Detail
	if !strings.Contains(again, "boom") || !strings.Contains(again, "nothing was missed") {
		t.Errorf("detail %q", again)
	}
	if a.lists != 1 {
		t.Errorf("%d lists, want 1", a.lists)
	}
}

func TestAVersionThatIsGoneIsAGap(t *testing.T) {
	t.Parallel()
	gone := apierrors.NewResourceExpired("too old resource version: 12 (40)")
	for name, inStream := range map[string]bool{"in the watch": true, "when it is opened": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &api{}
			a.set(nil, nil, "10", *pod("a", "3"), *pod("b", "4"))
			k := play(t, a, func(_ *testing.T, _ *Watcher, _ *kept) {
				a.send(watch.Event{Type: watch.Modified, Object: pod("a", "12")})
				if inStream {
					a.set(nil, nil, "50", *pod("a", "30"))
					a.send(watch.Event{Type: watch.Error, Object: &gone.ErrStatus})
				} else {
					a.set(nil, gone, "50", *pod("a", "30"))
					a.now.Stop()
					synctest.Wait()
					a.set(nil, nil, "50", *pod("a", "30"))
				}
				time.Sleep(lastPause)
				synctest.Wait()
				a.send(added("c", "51"))
			})
			want(t, k, "LISTED a 3", "LISTED b 4", "on", "MODIFIED a 12",
				"gap", "DELETED b 50", "LISTED a 30", "on", "ADDED c 51", "off")
			gap, last := k.state(history.ObserverGap)[0], k.events[3]
			whole := gap.Span.NotBefore <= last.Span.NotAfter && gap.Span.NotAfter >= last.Span.NotAfter
			if !whole || !strings.Contains(gap.Observer.Detail, "too old") {
				t.Errorf("gap %+v %+v after %+v", gap.Span, gap.Observer, last.Span)
			}
			if got := a.opened[len(a.opened)-1]; got != "50" {
				t.Errorf("last watch from %q, want 50", got)
			}
		})
	}
}

// TestAPodThatWasReplacedInAGap: the end of the first has a version below those of the second, or whoever asks for the
// last version of the name finds that the pod is gone.
func TestAPodThatWasReplacedInAGap(t *testing.T) {
	t.Parallel()
	gone := apierrors.NewResourceExpired("too old resource version: 12 (40)")
	second := pod("a", "45")
	second.SetUID("another")
	a := &api{}
	a.set(nil, nil, "10", *pod("a", "3"))
	k := play(t, a, func(_ *testing.T, _ *Watcher, _ *kept) {
		a.set(nil, nil, "50", *second)
		a.send(watch.Event{Type: watch.Error, Object: &gone.ErrStatus})
		time.Sleep(lastPause)
		synctest.Wait()
	})
	want(t, k, "LISTED a 3", "on", "gap", "DELETED a 44", "LISTED a 45", "on", "off")
	if uid := k.events[3].Object.UID; uid != "uid-a" {
		t.Errorf("uid %q is gone", uid)
	}
	objects := world.NewObjects()
	for i := range k.events {
		objects.Add(&k.events[i])
	}
	if last := objects.Pods.Latest("trial/a"); last.UID() != "another" {
		t.Errorf("the last pod is %+v", last.Event.Object)
	}
}

func TestReadyNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	a := &api{}
	a.set(errors.New("connection refused"), nil, "")
	k := play(t, a, func(t *testing.T, w *Watcher, _ *kept) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := w.Ready(ctx)
		for _, want := range []string{"pods", "connection refused", "1m0s"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Ready: %v, want %q", err, want)
			}
		}
		if a.lists > 20 {
			t.Errorf("%d lists in a minute", a.lists)
		}
		a.set(nil, nil, "10")
		time.Sleep(lastPause)
		if err := w.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
	want(t, k, "on", "off")
}

func TestWhatCannotBeKeptIsALoss(t *testing.T) {
	t.Parallel()
	big := pod("big", "11")
	big.SetAnnotations(map[string]string{"a": strings.Repeat("x", mostRaw)})
	a := &api{}
	a.set(nil, nil, "10")
	k := play(t, a, func(_ *testing.T, _ *Watcher, _ *kept) {
		a.send(watch.Event{Type: watch.Added, Object: big}, watch.Event{Type: watch.Added, Object: &metav1.Status{}},
			added("none", ""), watch.Event{Type: "ODD", Object: pod("a", "12")}, added("a", "13"))
	})
	want(t, k, "on", "loss", "ADDED big 11", "loss", "loss", "loss", "ADDED a 13", "off")
}

func TestStartWatchesEveryResource(t *testing.T) {
	t.Parallel()
	kinds := map[schema.GroupVersionResource]string{}
	names := make([]string, 0, len(resources("trial")))
	for _, r := range resources("trial") {
		kinds[r.GroupVersionResource] = "ThingList"
		names = append(names, r.Resource)
	}
	if !slices.IsSorted(names) {
		t.Errorf("resources are not in the order of the alphabet: %v", names)
	}
	for gvr := range kinds {
		kinds[gvr] = strings.ToUpper(gvr.Resource[:1]) + gvr.Resource[1:] + "List"
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
	k := &kept{}
	cfg := Config{
		Client: client, Namespace: "trial", NodeSelector: "pool=trial", Recorder: k, Log: slog.New(slog.DiscardHandler),
	}
	w, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	w.Stop()
	for _, name := range names {
		said := func(e history.Event) bool { return e.Observer.Name == "api/"+name }
		on := slices.ContainsFunc(k.state(history.ObserverOn), said)
		off := slices.ContainsFunc(k.state(history.ObserverOff), said)
		if !on || !off {
			t.Errorf("%s: on %t, off %t", name, on, off)
		}
	}
	for _, action := range client.Actions() {
		resource, namespace := action.GetResource().Resource, action.GetNamespace()
		want, known := map[string]string{"pods": "trial", "nodes": "", "leases": "kube-node-lease"}[resource]
		if known && namespace != want {
			t.Errorf("%s %s in namespace %q", action.GetVerb(), resource, namespace)
		}
		asked := ""
		switch a := action.(type) {
		case clienttesting.ListAction:
			asked = a.GetListRestrictions().Labels.String()
		case clienttesting.WatchAction:
			asked = a.GetWatchRestrictions().Labels.String()
		}
		if want := map[string]string{"nodes": "pool=trial"}[resource]; asked != want {
			t.Errorf("%s %s of labels %q, want %q", action.GetVerb(), resource, asked, want)
		}
	}
	cfg.Namespace = ""
	if _, err := Start(t.Context(), cfg); err == nil {
		t.Error("no namespace: no error")
	}
}

// TestAResourceMayBeInAnotherEtcd has resources with resourceVersions far below those of all else, as on a cluster with
// --etcd-servers-overrides for them: those of another etcd say nothing of when an object was made.
func TestAResourceMayBeInAnotherEtcd(t *testing.T) {
	t.Parallel()
	for _, apart := range []string{"events", "leases"} {
		t.Run(apart, func(t *testing.T) {
			t.Parallel()
			kinds := map[schema.GroupVersionResource]string{}
			for _, r := range resources("trial") {
				kinds[r.GroupVersionResource] = strings.ToUpper(r.Resource[:1]) + r.Resource[1:] + "List"
			}
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
			client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				list := &unstructured.UnstructuredList{}
				list.SetResourceVersion("5000")
				if a.GetResource().Resource == apart {
					list.SetResourceVersion("100")
				}
				return true, list, nil
			})
			one, pods := watch.NewFake(), watch.NewFake()
			client.PrependWatchReactor(apart, clienttesting.DefaultWatchReactor(one, nil))
			client.PrependWatchReactor("pods", clienttesting.DefaultWatchReactor(pods, nil))
			k := &kept{}
			w, err := Start(t.Context(), Config{
				Client: client, Namespace: "trial", Recorder: k, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Ready(t.Context()); err != nil {
				t.Error(err)
			}
			made := bootclock.Now()
			one.Add(pod("e", "101"))
			pods.Add(pod("p", "5001"))
			w.Stop()
			k.events = slices.DeleteFunc(k.events, func(e history.Event) bool { return e.Object == nil })
			for _, e := range k.events {
				if e.Span.NotAfter < made {
					t.Errorf("%s: span %+v, made at %d", e.Object.Name, e.Span, made)
				}
			}
			if len(k.events) != 2 {
				t.Errorf("on record are %q", k.words())
			}
		})
	}
}

// TestSpansHoldTheTruth makes changes at known times, asks for versions at others, delivers late, and checks that every
// span holds the time at which its change was really made.
func TestSpansHoldTheTruth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		known := &revisions{}
		var changes []change
		now, version := history.Time(1000), uint64(10)
		known.add(900, 999, "10")
		step := func() history.Time { now += history.Time(rapid.IntRange(1, 50).Draw(t, "step")); return now }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				version += uint64(rapid.IntRange(1, 3).Draw(t, "versions"))
				changes = append(changes, change{step(), version})
			case 1: // A question during which a change may be made, seen by the answer or not.
				from, v := step(), version
				if rapid.Bool().Draw(t, "change meanwhile") {
					version++
					changes = append(changes, change{step(), version})
					if rapid.Bool().Draw(t, "seen") {
						v = version
					}
				}
				known.add(from, step(), strconv.FormatUint(v, 10))
			default:
				step()
			}
			for _, c := range changes {
				v := strconv.FormatUint(c.version, 10)
				if s := known.when(v, 900, now); s.NotBefore > c.at || s.NotAfter < c.at {
					t.Fatalf("change %d was made at %d, its span is %+v: %+v", c.version, c.at, s, known.anchors)
				}
				if up := known.seenUpTo(v, 0); up > nextAfter(changes, c.version) {
					t.Fatalf("seen up to %d with version %d, and the next change is earlier", up, c.version)
				}
			}
		}
	})
}

// nextAfter returns when the first change behind a version was made.
func nextAfter(changes []change, version uint64) history.Time {
	for _, c := range changes {
		if c.version > version {
			return c.at
		}
	}
	return 1 << 60
}

type change struct {
	at      history.Time
	version uint64
}

func TestRevisionsAreBounded(t *testing.T) {
	t.Parallel()
	known := &revisions{}
	for i := range 10 * mostAnchors {
		known.add(history.Time(10*i), history.Time(10*i+5), strconv.Itoa(i))
	}
	known.add(1, 2, "no number")
	if len(known.anchors) > mostAnchors {
		t.Errorf("%d anchors", len(known.anchors))
	}
	last := 10*mostAnchors - 1
	want := history.Between(history.Time(10*(last-1)), history.Time(10*last+5))
	if got := known.when(strconv.Itoa(last), 0, 1<<40); got != want {
		t.Errorf("when = %+v, want %+v", got, want)
	}
	if got := known.when("x", 3, 4); got != history.Between(3, 4) {
		t.Errorf("when of no number = %+v", got)
	}
}
