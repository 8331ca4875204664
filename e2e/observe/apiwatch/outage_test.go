package apiwatch

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/seatrial/seatrial/chaos/history"
)

// away is how long the API server does not answer.
const away = 30 * time.Second

// TestAnAPIServerThatWasAwayIsWatchedOn stops it, and starts one that still has every version.
func TestAnAPIServerThatWasAwayIsWatchedOn(t *testing.T) {
	t.Parallel()
	a := &api{}
	a.set(nil, nil, "10", *pod("a", "3"))
	refused := errors.New("connection refused")
	k := play(t, a, func(t *testing.T, _ *Watcher, _ *kept) {
		a.send(added("b", "11"))
		a.set(refused, refused, "")
		a.now.Stop()
		time.Sleep(away)
		if n := len(a.opened); n > 5*int(away/time.Second) || n < 5 {
			t.Errorf("%d attempts in %s", n, away)
		}
		a.set(nil, nil, "11")
		time.Sleep(lastPause)
		synctest.Wait()
		a.send(added("c", "12"))
	})
	want(t, k, "LISTED a 3", "on", "ADDED b 11", "on", "ADDED c 12", "off")
	again := k.state(history.ObserverOn)[1].Observer.Detail
	if !strings.Contains(again, "nothing was missed") || !strings.Contains(again, "connection refused") {
		t.Errorf("detail %q", again)
	}
	if a.lists != 1 {
		t.Errorf("%d lists, want 1", a.lists)
	}
}

// TestAnAPIServerThatWasAwayAndForgotIsAGap starts one that does not have the version any longer: what was missed is
// bounded by a gap that spans all of the time, and what is gone since is recorded as deleted.
func TestAnAPIServerThatWasAwayAndForgotIsAGap(t *testing.T) {
	t.Parallel()
	a := &api{}
	a.set(nil, nil, "10", *pod("a", "3"), *pod("b", "4"))
	refused := errors.New("connection refused")
	k := play(t, a, func(_ *testing.T, _ *Watcher, _ *kept) {
		a.send(added("c", "11"))
		a.set(refused, refused, "")
		a.now.Stop()
		time.Sleep(away)
		// It answers, and its cache is not filled yet: the version is gone, and a list fails for some time.
		a.set(apierrors.NewInternalError(errors.New("not ready")),
			apierrors.NewResourceExpired("too old resource version: 11 (50)"), "50", *pod("a", "30"), *pod("c", "11"))
		time.Sleep(2 * lastPause)
		a.set(nil, nil, "50", *pod("a", "30"), *pod("c", "11"))
		time.Sleep(lastPause)
		synctest.Wait()
		a.send(added("d", "51"))
	})
	want(t, k, "LISTED a 3", "LISTED b 4", "on", "ADDED c 11",
		"gap", "DELETED b 50", "LISTED a 30", "LISTED c 11", "on", "ADDED d 51", "off")
	gap, last := k.state(history.ObserverGap)[0], k.events[3]
	if gap.Span.NotBefore > last.Span.NotAfter || gap.Span.NotAfter < last.Span.NotAfter ||
		!strings.Contains(gap.Observer.Detail, "not ready") {
		t.Errorf("gap %+v %+v after %+v", gap.Span, gap.Observer, last.Span)
	}
}

// TestAnAPIServerThatNeverCameBackIsAGap ends the watch while the server is away, or is back without the version.
func TestAnAPIServerThatNeverCameBackIsAGap(t *testing.T) {
	t.Parallel()
	refused := errors.New("connection refused")
	for why, watchError := range map[string]error{
		"refused": refused, "too old": apierrors.NewResourceExpired("too old resource version: 11 (50)"),
	} {
		t.Run(why, func(t *testing.T) {
			t.Parallel()
			a := &api{}
			a.set(nil, nil, "10")
			k := play(t, a, func(_ *testing.T, _ *Watcher, _ *kept) {
				a.send(added("a", "11"))
				a.set(refused, watchError, "")
				a.now.Stop()
				time.Sleep(away)
			})
			want(t, k, "on", "ADDED a 11", "gap", "off")
			gap, last := k.state(history.ObserverGap)[0], k.events[1]
			if gap.Span.NotBefore > last.Span.NotAfter || gap.Span.NotAfter < last.Span.NotAfter ||
				!strings.Contains(gap.Observer.Detail, "refused") {
				t.Errorf("gap %+v %+v after %+v", gap.Span, gap.Observer, last.Span)
			}
		})
	}
}

// TestAnAPIServerThatWasFrozenIsWatchedOn has a watch that says nothing for a time, and goes on.
func TestAnAPIServerThatWasFrozenIsWatchedOn(t *testing.T) {
	t.Parallel()
	a := &api{}
	a.set(nil, nil, "10")
	k := play(t, a, func(_ *testing.T, _ *Watcher, _ *kept) {
		a.send(added("a", "11"))
		time.Sleep(away)
		a.send(added("b", "12"))
	})
	want(t, k, "on", "ADDED a 11", "ADDED b 12", "off")
	if len(a.opened) != 1 {
		t.Errorf("watches were opened at %v", a.opened)
	}
}
