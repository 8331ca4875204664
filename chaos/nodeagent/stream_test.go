package nodeagent

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestTheLastAnswerCounts has an answer come at the very end, when nobody waits any more: it is taken.
func TestTheLastAnswerCounts(t *testing.T) {
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("waited long enough"))
	closed := make(chan struct{})
	close(closed)
	for range 50 { // What is ready at the same time is chosen by chance.
		s := &Stream[string]{lines: make(chan string, 1), ended: closed}
		s.lines <- "last"
		if got, err := s.Next(over); err != nil || got != "last" {
			t.Fatalf("an answer at the end: got %q, %v", got, err)
		}
		broken := &Stream[string]{lines: make(chan string), ended: closed, err: errors.New("no agent")}
		if _, err := broken.Next(over); err == nil || !strings.Contains(err.Error(), "no agent") {
			t.Fatalf("an agent that has ended: got %v", err)
		}
	}
	silent := &Stream[string]{lines: make(chan string), ended: make(chan struct{})}
	if _, err := silent.Next(over); err == nil || !strings.Contains(err.Error(), "waited long enough") {
		t.Errorf("no answer: got %v", err)
	}
}
