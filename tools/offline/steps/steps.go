// Package steps runs steps that take minutes, one after another, and prints the progress.
package steps

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

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

// Run runs the steps. It writes a line when a step starts and when it ends; who reads them breaks the silence.
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
	err := s.Do(ctx)
	elapsed := time.Since(start).Round(time.Second)
	if err != nil {
		fmt.Fprintf(out, "%s: failed after %s\n", head, elapsed)
		return err
	}
	fmt.Fprintf(out, "%s: done in %s\n", head, elapsed)
	return nil
}

// brief formats a duration without zero seconds.
func brief(d time.Duration) string {
	text := d.Round(time.Second).String()
	if minutes, even := strings.CutSuffix(text, "m0s"); even {
		return minutes + "m"
	}
	return text
}
