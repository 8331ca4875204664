package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// phase runs one phase and records and prints its begin and end.
func (c *runner) phase(
	ctx context.Context, name history.PhaseName, what string, do func(context.Context) error,
) error {
	return c.recorded(ctx, history.Phase{Name: name, Detail: what}, do)
}

func (c *runner) recorded(ctx context.Context, p history.Phase, do func(context.Context) error) error {
	begin := bootclock.Now()
	c.record(history.KindPhase, history.At(begin), func(e *history.Event) { e.Phase = &p })
	label := string(p.Name)
	if p.Step > 0 {
		label = fmt.Sprintf("step %d", p.Step)
	}
	fmt.Fprintf(c.Progress, "%8s  %-8s %s\n", c.sinceBegin(begin), label, p.Detail)
	err := ctx.Err()
	if err == nil {
		err = do(ctx)
	}
	if err == nil {
		err = c.rec.Err() // Without a record the rest of the trial is pointless.
	}
	end := bootclock.Now()
	last := p
	last.End = true
	if err != nil {
		err = fmt.Errorf("%s: %w", label, err)
		last.Error = err.Error()
	}
	c.record(history.KindPhase, history.At(end), func(e *history.Event) { e.Phase = &last })
	c.log.Info("phase", "name", label, "what", p.Detail, "took", end.Sub(begin), "err", last.Error)
	state := "done"
	if err != nil {
		state = "FAILED"
	}
	fmt.Fprintf(c.Progress, "%8s  %-8s %s after %.1f s\n", c.sinceBegin(end), label, state, end.Sub(begin).Seconds())
	return err
}

func (c *runner) sinceBegin(t history.Time) string {
	return fmt.Sprintf("%.1f s", t.Sub(c.began).Round(100*time.Millisecond).Seconds())
}

func (c *runner) record(kind history.Kind, span history.Span, fill func(*history.Event)) {
	e := history.Event{Kind: kind, Source: "trial", Span: span}
	fill(&e)
	c.rec.Record(e)
}

// recordPlan makes the plan the first fact: the history is the only input of the checks.
func (c *runner) recordPlan() error {
	raw, err := json.Marshal(c.Plan)
	if err != nil {
		return fmt.Errorf("encode plan: %w", err)
	}
	c.record(history.KindPlan, history.At(c.began), func(e *history.Event) { e.Plan = raw })
	return c.rec.Err()
}
