// Package steps does things that take minutes, one after another, and says how far it is.
package steps

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// heartbeat is how often a step that goes on says so.
const heartbeat = 20 * time.Second

// Step is one thing to do.
type Step struct {
	Name string
	// About is how long it takes on two cores with nothing cached.
	About time.Duration
	// There tells whether it was done before; Do is called all the same, to pick up the result.
	There func() bool
	Do    func(ctx context.Context) error
}

// Run does the steps of what is being made. It writes a line when a step starts, every 20 s while it goes on, and when
// it ends.
func Run(ctx context.Context, out io.Writer, what string, all []Step) error {
	for i, s := range all {
		head := fmt.Sprintf("%s %d/%d: %s", what, i+1, len(all), s.Name)
		if s.There() {
			fmt.Fprintf(out, "%s: already there\n", head)
			if err := s.Do(ctx); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(out, "%s (about %s on two idle cores)\n", head, Brief(s.About))
		if err := s.run(ctx, out, head); err != nil {
			return err
		}
	}
	return nil
}

func (s Step) run(ctx context.Context, out io.Writer, head string) error {
	start := time.Now()
	elapsed := func() time.Duration { return time.Since(start).Round(time.Second) }
	ended := make(chan error, 1)
	go func() { ended <- s.Do(ctx) }()
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(out, "%s: %s so far, about %s on two idle cores\n", head, elapsed(), Brief(s.About))
		case err := <-ended:
			if err != nil {
				fmt.Fprintf(out, "%s: failed after %s\n", head, elapsed())
				return err
			}
			fmt.Fprintf(out, "%s: done in %s\n", head, elapsed())
			return nil
		}
	}
}

// Brief writes a duration without seconds that are none.
func Brief(d time.Duration) string {
	text := d.Round(time.Second).String()
	if minutes, even := strings.CutSuffix(text, "m0s"); even {
		return minutes + "m"
	}
	return text
}
