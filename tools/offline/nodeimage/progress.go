package nodeimage

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// heartbeat is how often a step that goes on says so.
const heartbeat = 20 * time.Second

// State is how far a step is.
type State string

// The states of a step.
const (
	Started State = "started"
	Working State = "working"
	Done    State = "done"
	Reused  State = "reused"
	Failed  State = "failed"
)

// Progress is one report on one step.
type Progress struct {
	// Step is what is being done, for example "compile kubernetes".
	Step  string
	State State
	// Number of Total counts the steps from 1.
	Number, Total int
	// Elapsed is how long the step has taken, and About how long it takes on two cores with nothing cached.
	Elapsed, About time.Duration
}

// String is the report as one line for a person.
func (p Progress) String() string {
	head := fmt.Sprintf("node image %d/%d: %s", p.Number, p.Total, p.Step)
	elapsed := p.Elapsed.Round(time.Second)
	switch p.State {
	case Started:
		return fmt.Sprintf("%s (about %s on two idle cores)", head, brief(p.About))
	case Working:
		return fmt.Sprintf("%s: %s so far, about %s on two idle cores", head, elapsed, brief(p.About))
	case Reused:
		return head + ": already there"
	case Failed:
		return fmt.Sprintf("%s: failed after %s", head, elapsed)
	}
	return fmt.Sprintf("%s: done in %s", head, elapsed)
}

// brief writes a duration without seconds that are none.
func brief(d time.Duration) string {
	text := d.Round(time.Second).String()
	if minutes, even := strings.CutSuffix(text, "m0s"); even {
		return minutes + "m"
	}
	return text
}

// step is one thing to do.
type step struct {
	name  string
	about time.Duration
	// there tells whether it was done before.
	there func() bool
	do    func(ctx context.Context) error
}

// runSteps does the steps one after another, with reports.
func runSteps(ctx context.Context, steps []step, report func(Progress)) error {
	for i, s := range steps {
		p := Progress{Step: s.name, Number: i + 1, Total: len(steps), About: s.about, State: Started}
		if s.there() {
			p.State = Reused
			report(p)
			if err := s.do(ctx); err != nil {
				return err
			}
			continue
		}
		report(p)
		if err := runStep(ctx, s, p, report); err != nil {
			return err
		}
	}
	return nil
}

func runStep(ctx context.Context, s step, p Progress, report func(Progress)) error {
	start := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- s.do(ctx) }()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.State, p.Elapsed = Working, time.Since(start)
			report(p)
		case err := <-ended:
			p.State, p.Elapsed = Done, time.Since(start)
			if err != nil {
				p.State = Failed
			}
			report(p)
			return err
		}
	}
}
