package faulttest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/network"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// withoutJournal deletes a harness's journal during a fault and then kills the harness. The cluster must heal all the
// same.
func (m *matrix) withoutJournal(t *testing.T, on clusters.Node) {
	run, def := runPrefix+"-no-journal", network.Partition()
	env, err := m.target(on).Fit(t.Context(), run)
	if err != nil {
		t.Error(err)
		return
	}
	at := faulttest.KillPoint{Stage: history.StageInjected, After: true}
	e := m.assign(def.Name, env, at, run, briefLife)
	killed, err := m.killWithoutJournal(t.Context(), e)
	if err != nil {
		t.Errorf("the journal is deleted: %v", err)
		return
	}
	c := m.wait(t.Context(), on, run, killed, killed.Add(leastLife))
	f, err := def.New(e.spec(), 1, env)
	if err == nil && c.err == nil {
		err = m.well(t.Context(), f)
	}
	if err = errors.Join(c.err, err); err != nil {
		t.Errorf("the journal is deleted: %v", err)
	}
	t.Logf("journal deleted, harness killed: healed %s after the kill; before: %s", c.healed, c.last)
}

// healedTwice kills the harnesses of two long-lived faults of one run, with their journals deleted, and heals twice
// concurrently. Both heals must succeed, and each thing must be undone by exactly one.
func (m *matrix) healedTwice(t *testing.T, on clusters.Node) {
	const life = 3 * time.Minute
	ctx, run := t.Context(), runPrefix+"-twice"
	env, err := m.target(on).Fit(ctx, run)
	if err != nil {
		t.Error(err)
		return
	}
	at := faulttest.KillPoint{Stage: history.StageInjected, After: true}
	begin := bootclock.Now()
	for _, name := range []string{"cordon", "node-partition"} {
		if _, err := m.killWithoutJournal(ctx, m.assign(name, env, at, run, life)); err != nil {
			t.Errorf("heal twice at once: %v", err)
			return
		}
	}
	if left, err := m.left(ctx, on, run); err != nil || len(left) == 0 {
		t.Errorf("before the heals: left %q, %v, want the faults to be there", left, err)
	}
	said := m.healAtOnce(ctx, t, run)
	if took := bootclock.Now().Sub(begin); took > life/2 {
		t.Errorf("healed after %s: it may have been the timers", took)
	}
	if left, err := m.left(ctx, on, run); err != nil || len(left) > 0 {
		t.Errorf("healed twice at once: left %s, %v", strings.Join(left, "; "), err)
	}
	for _, thing := range []string{on.Name() + ": undone", "node " + on.Name() + " uncordoned"} {
		if n := strings.Count(said[0], thing) + strings.Count(said[1], thing); n != 1 {
			t.Errorf("%q is undone %d times, want once: %q", thing, n, said)
		}
	}
	again := m.healAtOnce(ctx, t, run)
	if strings.Contains(again[0]+again[1], "undone") {
		t.Errorf("there was something left for later heals: %q", again)
	}
	t.Logf("healed twice at once: %q", said)
}

// killWithoutJournal starts a harness, deletes its journal and kills it.
func (m *matrix) killWithoutJournal(ctx context.Context, e assignment) (history.Time, error) {
	e.Forget = true
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	killed, err := e.send(limited)
	if _, there := os.Stat(e.Journal); err == nil && !os.IsNotExist(there) {
		err = fmt.Errorf("the journal %q was to be deleted: %w", e.Journal, errors.Join(there, fault.ErrNothingShown))
	}
	return killed, err
}

// healAtOnce runs the heal command twice concurrently and returns both outputs.
func (m *matrix) healAtOnce(ctx context.Context, t *testing.T, run string) [2]string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var said [2]string
	var both sync.WaitGroup
	for i := range said {
		both.Go(func() {
			var out, errs bytes.Buffer
			cmd := exec.CommandContext(ctx, m.watchdog.Argv[0], "heal", "--run", run, "--cluster", m.cluster.Name())
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil {
				t.Errorf("heal %d of two at once: %v: %s%s", i+1, err, &out, &errs)
			}
			said[i] = out.String()
		})
	}
	both.Wait()
	return said
}
