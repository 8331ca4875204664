package apiwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
)

// etcd is an api that has every version there ever was but those before compacted.
type etcd struct {
	api
	first     uint64
	states    [][]unstructured.Unstructured // From version first on.
	compacted uint64
}

func (e *etcd) List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if opts.ResourceVersionMatch != metav1.ResourceVersionMatchExact {
		return e.api.List(ctx, opts)
	}
	v, err := strconv.ParseUint(opts.ResourceVersion, 10, 64)
	switch {
	case err != nil || v < e.first || v >= e.first+uint64(len(e.states)):
		return nil, fmt.Errorf("there is no version %q", opts.ResourceVersion)
	case v < e.compacted:
		return nil, apierrors.NewResourceExpired("compacted")
	}
	list := &unstructured.UnstructuredList{Items: e.states[v-e.first]}
	list.SetResourceVersion(opts.ResourceVersion)
	return list.DeepCopy(), nil
}

// restarted plays an API server that is away for a time and has forgotten everything before version 15 when it is back.
// Pod b is changed meanwhile, c comes and goes, a is made again.
func restarted(t *testing.T, compacted uint64) *kept {
	t.Helper()
	another := pod("a", "15")
	another.SetUID("uid-another")
	e := &etcd{first: 11, compacted: compacted, states: [][]unstructured.Unstructured{
		{*pod("a", "3"), *pod("b", "11")},
		{*pod("a", "3"), *pod("b", "11"), *pod("c", "12")},
		{*pod("a", "3"), *pod("b", "11")},
		{*pod("b", "11")},
		{*another, *pod("b", "11")},
		{*another, *pod("b", "16")},
		{*another, *pod("b", "16")},
	}}
	e.set(nil, nil, "10", *pod("a", "3"))
	return playFrom(t, e, func(_ *testing.T, _ *Watcher, _ *kept) {
		e.send(added("b", "11"))
		refused := errors.New("connection refused")
		e.set(refused, refused, "")
		e.now.Stop()
		time.Sleep(away)
		e.set(refused, apierrors.NewResourceExpired("too old resource version: 11 (15)"), "")
		time.Sleep(2 * lastPause)
		e.set(nil, nil, "17", *another, *pod("b", "16"))
		time.Sleep(lastPause)
		synctest.Wait()
		e.send(added("d", "18"))
	})
}

func TestAnAPIServerThatWasRestartedIsAskedForWhatItForgot(t *testing.T) {
	t.Parallel()
	k := restarted(t, 0)
	want(t, k, "LISTED a 3", "on", "ADDED b 11",
		"on", "ADDED c 12", "DELETED c 13", "DELETED a 14", "ADDED a 15", "MODIFIED b 16", "ADDED d 18", "off")
	again := k.state(history.ObserverOn)[1].Observer.Detail
	if !strings.Contains(again, "nothing was missed") || !strings.Contains(again, "since 11") {
		t.Errorf("detail %q", again)
	}
}

func TestWhatEtcdForgotIsAGap(t *testing.T) {
	t.Parallel()
	k := restarted(t, 13)
	want(t, k, "LISTED a 3", "on", "ADDED b 11",
		"gap", "DELETED a 14", "LISTED a 15", "LISTED b 16", "on", "ADDED d 18", "off")
	if gap := k.state(history.ObserverGap)[0].Observer.Detail; !strings.Contains(gap, "compacted") {
		t.Errorf("detail %q", gap)
	}
}

// TestTheBridgeTellsWhatTheWatchWouldHaveTold makes objects come, change and go, and asks for it afterwards.
func TestTheBridgeTellsWhatTheWatchWouldHaveTold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		there := map[string]string{} // Name to version.
		state := func() (items []unstructured.Unstructured) {
			for name, version := range there {
				items = append(items, *pod(name, version))
			}
			return items
		}
		e := &etcd{first: 100, states: [][]unstructured.Unstructured{state()}}
		var told []string
		for i := range rapid.IntRange(0, 40).Draw(t, "versions") {
			version, name := strconv.Itoa(101+i), rapid.SampledFrom([]string{"a", "b", "c", "other"}).Draw(t, "name")
			_, is := there[name]
			switch {
			case name == "other": // A write to another resource.
			case !is:
				there[name] = version
				told = append(told, "ADDED "+name+" "+version)
			case rapid.Bool().Draw(t, "deleted"):
				delete(there, name)
				told = append(told, "DELETED "+name+" "+version)
			default:
				there[name] = version
				told = append(told, "MODIFIED "+name+" "+version)
			}
			e.states = append(e.states, state())
		}
		s := newStream("pods", e, "", &revisions{}, &kept{}, slog.New(slog.DiscardHandler))
		changes, err := s.bridge(context.Background(), "100", strconv.Itoa(99+len(e.states)))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range changes {
			o, ok := c.Object.(*unstructured.Unstructured)
			if !ok {
				t.Fatalf("%T", c.Object)
			}
			got = append(got, string(c.Type)+" "+o.GetName()+" "+o.GetResourceVersion())
		}
		if diff := cmp.Diff(told, got); diff != "" {
			t.Fatalf("changes (-want +got):\n%s", diff)
		}
	})
}

func TestABridgeIsNotTooLong(t *testing.T) {
	t.Parallel()
	s := newStream("pods", &etcd{}, "", &revisions{}, &kept{}, slog.New(slog.DiscardHandler))
	for _, c := range [][2]string{{"1", strconv.Itoa(mostBridged + 2)}, {"2", "1"}, {"x", "2"}, {"1", ""}, {"1", "2"}} {
		if changes, err := s.bridge(t.Context(), c[0], c[1]); err == nil {
			t.Errorf("from %q to %q: %v, no error", c[0], c[1], changes)
		}
	}
	if _, err := s.bridge(t.Context(), "1", "9000"); !errors.Is(err, errTooFar) {
		t.Errorf("error %v", err)
	}
}
