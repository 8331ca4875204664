// Package steps runs steps that take minutes, one after another, and prints the progress.
package steps

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// heartbeat is the interval of progress lines of a running step.
const heartbeat = 20 * time.Second

// Step is one thing to do.
type Step struct {
	Name string
	// About is how long it takes on two cores with nothing cached.
	About time.Duration
	// There reports whether the result exists; Do is called nevertheless, to return it. Nil means no.
	There func() bool
	Do    func(ctx context.Context) error
}

// Outlook returns which steps remain and how long they take.
func Outlook(all []Step) string {
	var names []string
	var about time.Duration
	for _, s := range all {
		if s.There == nil || !s.There() {
			names, about = append(names, s.Name), about+s.About
		}
	}
	return fmt.Sprintf("about %s on two idle cores (%s)", brief(about.Round(time.Minute)), strings.Join(names, ", "))
}

// Run runs the steps. It writes a line when a step starts, every 20 s while it runs, and when it ends.
func Run(ctx context.Context, out io.Writer, what string, all []Step) error {
	for i, s := range all {
		head := fmt.Sprintf("%s %d/%d: %s", what, i+1, len(all), s.Name)
		if s.There != nil && s.There() {
			fmt.Fprintf(out, "%s: already there\n", head)
			if err := s.Do(ctx); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(out, "%s (about %s on two idle cores)\n", head, brief(s.About))
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
			fmt.Fprintf(out, "%s: %s so far, about %s on two idle cores\n", head, elapsed(), brief(s.About))
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

// brief formats a duration without zero seconds.
func brief(d time.Duration) string {
	text := d.Round(time.Second).String()
	if minutes, even := strings.CutSuffix(text, "m0s"); even {
		return minutes + "m"
	}
	return text
}
