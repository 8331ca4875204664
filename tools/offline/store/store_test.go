package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestProduceResumesAfterInterruption(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	ctx := context.Background()
	stop := errors.New("interrupted")
	write := func(text string, err error) func(context.Context, string) error {
		return func(_ context.Context, dir string) error {
			if entries, _ := os.ReadDir(dir); len(entries) != 0 {
				t.Errorf("work begins with %d entries, want none", len(entries))
			}
			return errors.Join(os.WriteFile(filepath.Join(dir, "out"), []byte(text), 0o644), err)
		}
	}
	if _, _, err := s.Produce(ctx, "thing", "ab", write("half", stop)); !errors.Is(err, stop) {
		t.Fatalf("error = %v, want the work's own", err)
	}
	if s.Has("thing", "ab") {
		t.Fatal("half a result counts as whole")
	}
	// A process that was killed leaves what it had begun.
	left := filepath.Join(s.Dir, "unfinished", "thing-ab")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "junk"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir, reused, err := s.Produce(ctx, "thing", "ab", write("whole", nil))
	if err != nil || reused {
		t.Fatalf("reused = %v, error = %v, want work done", reused, err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "out")); string(got) != "whole" {
		t.Errorf("result = %q, want whole", got)
	}
	again := func(context.Context, string) error { t.Error("worked twice"); return nil }
	if _, reused, err := s.Produce(ctx, "thing", "ab", again); err != nil || !reused {
		t.Errorf("reused = %v, error = %v, want the first result", reused, err)
	}
}

func TestProduceEndsWithContext(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	ctx, cancel := context.WithCancel(context.Background())
	_, _, err := s.Produce(ctx, "thing", "ab", func(context.Context, string) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || s.Has("thing", "ab") {
		t.Errorf("error = %v, has = %v: a cancelled work must leave nothing", err, s.Has("thing", "ab"))
	}
}

func TestProduceOnceAmongMany(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	var works atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, _, err := s.Produce(context.Background(), "thing", "ab", func(context.Context, string) error {
				works.Add(1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if works.Load() != 1 {
		t.Errorf("worked %d times, want once", works.Load())
	}
}

func TestWaitForOtherProcessIsBounded(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	unlock, err := Lock(context.Background(), s.lockPath("thing-ab"), "nobody", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, _, err = s.Produce(ctx, "thing", "ab", func(context.Context, string) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "wait for another process to finish thing-ab") {
		t.Errorf("error = %v, want it to name what was waited for", err)
	}
}

func TestSweepLeavesWhatIsWorkedOn(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	left := filepath.Join(s.Dir, "unfinished", "old-cd")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Produce(t.Context(), "thing", "ab", func(_ context.Context, dir string) error {
		if err := s.Sweep(); err != nil {
			return err
		}
		_, err := os.Stat(dir)
		return err
	})
	if err != nil {
		t.Errorf("a sweep takes away what is worked on: %v", err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("what a killed process left is still there: %v", err)
	}
}

func TestKeepOnly(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	nothing := func(context.Context, string) error { return nil }
	for _, r := range [][2]string{{"image-v1", "aa"}, {"image-v1", "bb"}, {"image-v2", "aa"}} {
		if _, _, err := s.Produce(context.Background(), r[0], r[1], nothing); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.KeepOnly("image-v1", "bb"); err != nil {
		t.Fatal(err)
	}
	if s.Has("image-v1", "aa") || !s.Has("image-v1", "bb") || !s.Has("image-v2", "aa") {
		t.Error("KeepOnly must remove the others of its kind and nothing else")
	}
}

func TestAddressDependsOnContentAndNotOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "inputs")
		a, b := Inputs{}, Inputs{}
		names := make([]string, 0, len(inputs))
		for name, value := range inputs {
			a[name] = value
			names = append(names, name)
		}
		for i := range names {
			b[names[len(names)-1-i]] = inputs[names[len(names)-1-i]]
		}
		if a.Sum() != b.Sum() {
			t.Fatal("the order of inputs changes the address")
		}
		name := rapid.String().Draw(t, "name")
		value := rapid.String().Draw(t, "value")
		if old, ok := inputs[name]; ok && old == value {
			return
		}
		b[name] = value
		if a.Sum() == b.Sum() {
			t.Fatal("an input does not change the address")
		}
	})
}

func TestDefaultIsWhereTheVariableSays(t *testing.T) {
	t.Setenv("SEATRIAL_CACHE", "/somewhere")
	if s, err := Default(); err != nil || s.Dir != "/somewhere/nodeimage" {
		t.Errorf("store = %+v, %v", s, err)
	}
}
