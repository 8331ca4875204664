package proc

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	ctx := t.Context()
	show := Command{Args: []string{"printenv", "PROC_TEST"}, Env: []string{"PROC_TEST=a b"}}
	if out, err := Output(ctx, Exec{}, show); err != nil || out != "a b" {
		t.Errorf("output = %q, %v", out, err)
	}
	var stderr bytes.Buffer
	err := Exec{}.Run(ctx, Command{Args: []string{"ls", "/nonexistent-path"}, Stderr: &stderr})
	const word = "nonexistent-path"
	if err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(stderr.String(), word) {
		t.Errorf("error = %v, stderr = %q: both must have the program's words", err, stderr.String())
	}
	if err := (Exec{}).Run(ctx, Command{}); err == nil {
		t.Error("no program gives no error")
	}
	if err := (Exec{}).Run(ctx, Command{Args: []string{"no-such-program-anywhere"}}); err == nil {
		t.Error("a program that is not there gives no error")
	}
}

func TestRunEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	err := Exec{}.Run(ctx, Command{Args: []string{"sleep", "60"}})
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 10*time.Second {
		t.Errorf("error = %v after %s, want the context's at once", err, time.Since(start))
	}
}
