package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/durable"
)

func anOrder() nodeagent.Order {
	step := func(argv string) nodeagent.Step { return nodeagent.Step{Argv: strings.Fields(argv)} }
	return nodeagent.Order{
		Lead: 2 * time.Second, Act: step("act"), Looks: []nodeagent.Step{step("look left"), step("look right")},
		Every: time.Second, Lasts: 2500 * time.Millisecond, End: step("end it"),
	}
}

// play carries an order out with a runner that fails at the commands given, and returns the record.
func play(ctx context.Context, t *testing.T, o nodeagent.Order, fails ...string) (nodeagent.OrderRecord, error) {
	t.Helper()
	f := orderFile{path: filepath.Join(t.TempDir(), "order.json")}
	if err := durable.WriteJSON(f.path, o); err != nil {
		t.Fatal(err)
	}
	err := f.carryOut(ctx, func(_ context.Context, argv []string, _ string) (string, error) {
		if slices.Contains(fails, argv[0]) {
			return "", errors.New("it failed")
		}
		return argv[0] + strings.Repeat("?", 100<<10), nil // As of the probes of hundreds of nodes.
	})
	r, readErr := f.read()
	if readErr != nil && !errors.Is(readErr, os.ErrNotExist) {
		t.Fatal(readErr)
	}
	return r, err
}

func words(r nodeagent.OrderRecord) string {
	var all []string
	for _, did := range r.Did {
		all = append(all, strings.Join(did.Argv, " "))
	}
	return strings.Join(all, ", ")
}

func TestAnOrderIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := play(t.Context(), t, anOrder())
		want := "act, look left, look right, look left, look right, look left, look right, end it"
		if err != nil || !r.Over || words(r) != want {
			t.Errorf("got %q, over %t, %v", words(r), r.Over, err)
		}
	})
}

// TestAnOrderThatIsEndedEndsItsAct ends it before the act, and after it.
func TestAnOrderThatIsEndedEndsItsAct(t *testing.T) {
	for after, want := range map[time.Duration]string{
		time.Second: "", 2500 * time.Millisecond: "act, look left, look right, end it",
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			r, _ := play(ctx, t, anOrder())
			if words(r) != want || r.Over != (want != "") {
				t.Errorf("after %s: got %q, over %t", after, words(r), r.Over)
			}
		})
	}
}

func TestAnOrderWhoseStepsFail(t *testing.T) {
	for fails, want := range map[string]struct {
		words string
		over  bool
	}{
		"act":  {"act, end it", true}, // It may be half done.
		"look": {"act, look left, look right, look left, look right, look left, look right, end it", true},
		"end":  {"act, look left, look right, look left, look right, look left, look right, end it", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, err := play(t.Context(), t, anOrder(), fails)
			if words(r) != want.words || r.Over != want.over || (err != nil) != (fails != "look") {
				t.Errorf("%s fails: got %q, over %t, %v", fails, words(r), r.Over, err)
			}
		})
	}
}

func TestOrdersThatAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                                 "EOF",
		"{}":                               "wants an act",
		`{"act":{"argv":["a"]},"lasts":1}`: "wants an act",
	} {
		code, _, messages := runAgent(t, strings.NewReader(text), "order", "start", "--run", "r1", "--step", "1")
		if code != exitBadArguments || !strings.Contains(messages, says) {
			t.Errorf("%q: exit code %d, %s", text, code, messages)
		}
	}
	for _, args := range []string{"order", "order start", "order go --run r1 --step 1"} {
		if code, _, messages := runAgent(t, nil, strings.Fields(args)...); code != exitBadArguments {
			t.Errorf("%s: exit code %d, %s", args, code, messages)
		}
	}
	if got := orderOf(undo.Owner{Run: "r1", Step: 2}); got.path != "/run/seatrial/order/seatrial-r1-2.json" {
		t.Errorf("got %+v", got)
	}
}
