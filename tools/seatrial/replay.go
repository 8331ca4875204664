package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
)

func newReplay() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "replay RUNDIR",
		Short: "Run the plan of a saved run again, and say how far it followed",
		Long: `Replay runs the plan that RUNDIR kept, also if its scenario makes another plan of that seed today, and
says whether it does. What the plan waits for (commits, API objects, CSI calls, mounts, other faults) stays. A pause, or
a wait for a time, ends when as many inserts were acknowledged as in the saved run, so that a slower or faster machine
does the next step at the same point of the load. At the end it prints when each step began, then and now. The rest is
as for run.`,
		Example: "  seatrial replay runs/latest\n  seatrial replay fixtures/recorded/k8s-142243-9-fail --keep",
		Args:    exactly("RUNDIR"),

		ValidArgsFunction: completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			saved, err := readSaved(args[0])
			if err != nil {
				return err
			}
			say(cmd.ErrOrStderr(), "%s", saved.today())
			p := saved.plan
			var n int
			if p.Steps, n = saved.byCommits(); n > 0 {
				say(cmd.ErrOrStderr(), "%d waits for a time end by the recorded number of commits", n)
			}
			f.ran = func(dir *rundir.Dir) error {
				h, err := dir.ReadHistory()
				if err != nil {
					return err
				}
				return writeFollowed(cmd.ErrOrStderr(), p, saved.history, h)
			}
			return f.run(cmd.Context(), p, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.register(cmd)
	return cmd
}

type saved struct {
	plan    plan.Plan
	history history.History
}

// readSaved reads a run. The plan is that of the history: it is what was run.
func readSaved(path string) (s saved, err error) {
	dir, err := openRun(path)
	if err != nil {
		return s, err
	}
	if s.history, err = dir.ReadHistory(); err != nil {
		return s, badArguments("RUNDIR %q: %w", path, err)
	}
	for _, e := range s.history.Events {
		if e.Kind != history.KindPlan {
			continue
		}
		if s.plan, err = plan.Decode(e.Plan); err != nil {
			return s, badArguments("RUNDIR %q: %w", path, err)
		}
		return s, nil
	}
	return s, badArguments("RUNDIR %q: its history has no plan; give a run that had begun", path)
}

// today says whether the scenario makes the same plan of the seed today. What Run sets itself is left out.
func (s saved) today() string {
	c, ok := trial.AllParts().Named(s.plan.Scenario)
	if !ok {
		return fmt.Sprintf("scenario %s is no longer known; the kept plan is run", s.plan.Scenario)
	}
	now := plan.Make(c, s.plan.Seed)
	now.Audit, now.DataFiles = s.plan.Audit, s.plan.DataFiles
	made, err := json.Marshal(now)
	if err != nil {
		return fmt.Sprintf("scenario %s makes no plan today: %v", s.plan.Scenario, err)
	}
	// Decoded and encoded again, so that a field which got another default is no difference.
	if kept, err := json.Marshal(s.plan); err == nil && bytes.Equal(kept, made) {
		return fmt.Sprintf("scenario %s makes the same plan of seed %d today", s.plan.Scenario, s.plan.Seed)
	}
	return fmt.Sprintf("scenario %s makes another plan of seed %d today; the kept plan is run", s.plan.Scenario,
		s.plan.Seed)
}

// byCommits returns the plan's steps with waits for a time replaced by waits for the inserts that were acknowledged
// meanwhile, and how many there were. Where no insert was acknowledged, as under a fault or without clients, the time
// stays.
func (s saved) byCommits() (steps []plan.Step, replaced int) {
	then := stepsOf(s.history)
	steps = plan.Rewrite("steps", s.plan.Steps, func(_ string, step plan.Step) []plan.Step {
		timed := step.Do == plan.ActionPause || step.Do == plan.ActionAwait && step.Await.For == plan.AwaitTime
		if span := then[step.N]; timed && span.ended {
			if n := s.inserts(span.begin, span.end); n > 0 {
				await := &plan.Await{For: plan.AwaitCommits, Commits: n, Since: plan.SinceStep}
				step = plan.Step{N: step.N, Do: plan.ActionAwait, Await: await, Bound: plan.Duration(plan.MaxBound)}
				replaced++
			}
		}
		return []plan.Step{step}
	})
	return steps, replaced
}

func (s saved) inserts(from, to history.Time) (n int) {
	for _, e := range s.history.Events {
		if e.Op != nil && e.Op.F == history.OpInsert && e.Op.Stage == history.StageOK &&
			e.Span.NotAfter >= from && e.Span.NotAfter < to {
			n++
		}
	}
	return n
}

// stepSpan is when a step was carried out.
type stepSpan struct {
	begin, end history.Time
	ended      bool
	failed     string // Why.
}

// stepsOf returns when the steps of a plan were carried out, by their numbers.
func stepsOf(h history.History) map[int]stepSpan {
	found := map[int]stepSpan{}
	for _, e := range h.Events {
		if e.Phase == nil || e.Phase.Name != history.PhaseStep {
			continue
		}
		s := found[e.Phase.Step]
		if e.Phase.End {
			s.end, s.ended, s.failed = e.Span.NotAfter, true, e.Phase.Error
		} else {
			s.begin = e.Span.NotBefore
		}
		found[e.Phase.Step] = s
	}
	return found
}

// writeFollowed compares the steps of two runs of one plan. Times count from the begin of the first step.
func writeFollowed(w io.Writer, p plan.Plan, then, now history.History) error {
	before, after := stepsOf(then), stepsOf(now)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	at := func(steps map[int]stepSpan, n int) string {
		s, ok := steps[n]
		switch {
		case !ok:
			return "not reached"
		case s.failed != "":
			return fmt.Sprintf("%s, failed", s.begin.Sub(steps[1].begin).Round(100*time.Millisecond))
		case !s.ended:
			return fmt.Sprintf("%s, cut short", s.begin.Sub(steps[1].begin).Round(100*time.Millisecond))
		}
		return s.begin.Sub(steps[1].begin).Round(100 * time.Millisecond).String()
	}
	followed, all := 0, p.AllSteps()
	_, err := fmt.Fprintln(tab, "step\tthen\tnow\t")
	for _, s := range all {
		if a := after[s.N]; a.ended && a.failed == before[s.N].failed && before[s.N].ended {
			followed++
		}
		_, lineErr := fmt.Fprintf(tab, "%d\t%s\t%s\t%s\n", s.N, at(before, s.N), at(after, s.N), p.Describe(s))
		err = errors.Join(err, lineErr)
	}
	if err := errors.Join(err, tab.Flush()); err != nil {
		return fmt.Errorf("print how far the plan was followed: %w", err)
	}
	say(w, "followed %d of %d steps as they ended then", followed, len(all))
	return nil
}
