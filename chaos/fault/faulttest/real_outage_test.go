package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/network"
	"github.com/seatrial/seatrial/chaos/fault/node"
	"github.com/seatrial/seatrial/chaos/fault/object"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

const (
	// outageLasts is for how long there is no API server, at least.
	outageLasts = 30 * time.Second
	// outlasting is the life of the faults meanwhile: nothing that is healed before was healed by a timer.
	outlasting = 3 * time.Minute
)

// TestAPIServerIsStoppedAtEveryStep stops the API server for 30 s when faults of three kinds, on a node each, have come
// to a stage, for each of the stages. A fault may fail of that, and has to say so; it is healed all the same, and what
// it claims is so.
func TestAPIServerIsStoppedAtEveryStep(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: the API server stopped at every step of faults, on a real kind cluster: make long")
	}
	m := newMatrix(t, "seatrial-dev-outage", 3)
	for i, stage := range []history.FaultStage{
		history.StageIntent, history.StageArmed, history.StageInjected, history.StageConfirmed, history.StageHealed,
		history.StageConfirmedHealed,
	} {
		t.Run(string(stage), func(t *testing.T) {
			m.outageAt(t, stage, fmt.Sprintf("%so%d-", runPrefix, i), object.Cordon(), network.Partition(),
				node.KubeletFreeze())
		})
	}
}

// outage holds faults at a stage until all of them have come to it or have ended, and then stops the API server.
type outage struct {
	at   history.FaultStage
	stop func() error // Returns when nobody is answered any more.

	mu      sync.Mutex
	missing int
	came    int
	begun   chan struct{}
	err     error
}

// arrive counts a fault that is there, or one that will not come any more.
func (o *outage) arrive(there bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case <-o.begun:
		return
	default:
	}
	o.missing--
	if there {
		o.came++
	}
	if o.missing > 0 {
		return
	}
	if o.came > 0 {
		o.err = o.stop()
	}
	close(o.begun)
}

// sufferer is one fault of the outage. It is the journal of its guard.
type sufferer struct {
	*outage
	def  fault.Definition
	on   clusters.Node
	run  string
	env  fault.Env
	rec  faulttest.Recorder
	came bool  // To the stage.
	end  error // The guard's.
	left []string
}

// Append holds a fault that has come to the stage.
func (v *sufferer) Append(_ string, _ history.Time, f history.Fault) error {
	if f.Stage != v.at {
		return nil
	}
	v.came = true
	v.arrive(true)
	<-v.begun
	return nil
}

// outageAt carries faults out beside each other, on a worker each, with an outage when they have come to a stage.
func (m *matrix) outageAt(t *testing.T, stage history.FaultStage, prefix string, defs ...fault.Definition) {
	ctx := t.Context()
	if err := rested(ctx, m.target(m.nodes[1]), m.nodes); err != nil {
		t.Fatal(err)
	}
	all := make([]*sufferer, len(defs))
	for i, def := range defs {
		v := &sufferer{def: def, on: m.nodes[1+i], run: prefix + def.Name}
		var err error
		if v.env, err = m.target(v.on).Fit(ctx, v.run); err != nil {
			t.Fatal(err)
		}
		all[i] = v
	}
	server, err := component("apiserver-stop").New(plan.Fault{Name: "apiserver-stop", Life: plan.Duration(outlasting)},
		1, fault.Env{Cluster: m.cluster, Kube: m.kube, Node: m.nodes[0], RunID: prefix + "api", Clock: bootclock.Now,
			Log: m.log, Namespace: "kube-system", Pod: "none"})
	if err != nil {
		t.Fatal(err)
	}
	var stopped history.Time
	o := &outage{at: stage, missing: len(all), begun: make(chan struct{}), stop: func() error {
		err := server.Inject(ctx)
		if err == nil {
			_, err = server.Confirm(ctx)
		}
		stopped = bootclock.Now()
		return err
	}}
	var group sync.WaitGroup
	for _, v := range all {
		v.outage = o
		group.Go(func() { m.carryOut(ctx, v) })
	}
	<-o.begun
	if o.err != nil || stopped == 0 {
		t.Errorf("stop the API server when they were %s: %v", stage, errors.Join(o.err, context.Cause(ctx)))
	}
	err = errors.Join(await.For(ctx, outageLasts), server.Heal(ctx))
	if _, back := server.ConfirmHealed(ctx); err != nil || back != nil {
		t.Errorf("start the API server: %v", errors.Join(err, back))
	}
	t.Logf("%s: no API server for %s", stage, bootclock.Now().Sub(stopped))
	group.Wait()
	for _, v := range all {
		m.endsHealed(t, v)
	}
}

// carryOut takes one fault through its life, and looks what is left on its node at once.
func (m *matrix) carryOut(ctx context.Context, v *sufferer) {
	s := spec(v.def.Name)
	s.Hold, s.Life = plan.Duration(time.Second), plan.Duration(outlasting)
	f, err := v.def.New(s, 1, v.env)
	if err == nil {
		cfg := fault.Config{Step: faulttest.Step(s), Of: v.def, Env: v.env, Recorder: &v.rec, Journal: v}
		err = fault.NewGuard(cfg, f).Run(ctx)
	}
	if v.end = err; !v.came {
		v.arrive(false)
	}
	left, err := m.leftOn(ctx, v.on, v.run)
	if err != nil {
		left = append(left, err.Error())
	}
	v.left = left
}

// endsHealed holds a fault to what it claims, and waits until nothing is left of it.
func (m *matrix) endsHealed(t *testing.T, v *sufferer) {
	stages := v.rec.Stages()
	t.Logf("%s: stages %q, error %v; left on its node then: %q", v.def.Name, stages, v.end, v.left)
	whole := []history.FaultStage{
		history.StageIntent, history.StageInjected, history.StageConfirmed, history.StageHealed,
		history.StageConfirmedHealed,
	}
	if v.end == nil && !slices.Equal(stages, whole) {
		t.Errorf("%s: no error, and its stages are %q", v.def.Name, stages)
	}
	if v.end != nil && !slices.Contains(stages, history.StageFaultFailed) {
		t.Errorf("%s: %v, and its stages are %q: nothing says that it failed", v.def.Name, v.end, stages)
	}
	if slices.Contains(stages, history.StageConfirmedHealed) && len(v.left) > 0 {
		t.Errorf("%s: it was said to be healed, and there was %q", v.def.Name, v.left)
	}
	for _, f := range v.rec.Facts() {
		shows := f.Stage == history.StageConfirmed || f.Stage == history.StageConfirmedHealed
		if shows && len(f.Evidence) == 0 {
			t.Errorf("%s: stage %q has no evidence", v.def.Name, f.Stage)
		}
	}
	begin := bootclock.Now()
	c := m.wait(t.Context(), v.on, v.run, begin, begin.Add(outlasting))
	if c.err == nil {
		s := spec(v.def.Name)
		f, err := v.def.New(s, 1, v.env)
		if err == nil {
			err = m.well(t.Context(), f)
		}
		c.err = err
	}
	if c.err != nil {
		t.Errorf("%s: it does not end healed: %v", v.def.Name, c.err)
	}
	if c.healed > 5*time.Second {
		t.Logf("%s: nothing was left %s later; before: %s", v.def.Name, c.healed, strings.TrimSpace(c.last))
	}
}
