package fake

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Act is one thing that a node was asked to do.
type Act struct {
	Node string
	// Verb is "exec", "dial" or a power act: "reboot", "reset", "stop", "start", "kill", "pause", "unpause".
	Verb string
	// Argv is the command; for dial the network and the address; for reboot and stop the grace.
	Argv  []string
	Stdin string
}

// String writes the act as one line, and standard input as indented lines below it.
func (a Act) String() string {
	var b strings.Builder
	b.WriteString(a.Node + ": ")
	if a.Verb != "exec" {
		b.WriteString("<" + a.Verb + ">")
	}
	for i, arg := range a.Argv {
		if i > 0 || a.Verb != "exec" {
			b.WriteByte(' ')
		}
		b.WriteString(quote(arg))
	}
	for line := range strings.Lines(a.Stdin) {
		b.WriteString("\n    | " + strings.TrimSuffix(line, "\n"))
	}
	return b.String()
}

// quote leaves plain words as they are, so that a transcript reads like a terminal.
func quote(arg string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("%+,-./:=@_", r)
	}
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0 {
		return arg
	}
	return fmt.Sprintf("%q", arg)
}

// CrashedError is what a node panics with, or the error it returns, when a crash was set with Transcript.CrashAt.
type CrashedError struct {
	Act Act
}

// Error names the act at which it happened.
func (c *CrashedError) Error() string { return fmt.Sprintf("crashed at act %q", c.Act.String()) }

// CrashMode is how a crash shows.
type CrashMode int

// The crash modes.
const (
	CrashNever  CrashMode = iota
	CrashError            // The act does not happen; an error is returned, and from every later act as well.
	CrashHalf             // The act happens; an error is returned, and from every later act, which do not happen.
	CrashPanics           // The act does not happen; the node panics with a *CrashedError here and at every later act.
)

// Transcript is everything a cluster's nodes were asked, in order. It is safe for concurrent use. The zero value is
// ready.
type Transcript struct {
	mu      sync.Mutex
	acts    []Act
	crashAt int
	mode    CrashMode
}

// CrashAt makes the act with the given number, and all after it, fail: 1 is the next one. CrashNever ends it.
func (t *Transcript) CrashAt(n int, mode CrashMode) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.crashAt, t.mode = len(t.acts)+n, mode
}

// Acts returns a copy of the acts so far.
func (t *Transcript) Acts() []Act {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.acts)
}

// String writes all acts, for golden files.
func (t *Transcript) String() string {
	var b strings.Builder
	for _, a := range t.Acts() {
		b.WriteString(a.String() + "\n")
	}
	return b.String()
}

// record keeps an act. It returns an error for an act that must not happen, and one that is due after it happened.
func (t *Transcript) record(a Act) (before, after error) {
	t.mu.Lock()
	t.acts = append(t.acts, a)
	n, at, mode := len(t.acts), t.crashAt, t.mode
	t.mu.Unlock()
	if mode == CrashNever || n < at {
		return nil, nil
	}
	crash := &CrashedError{Act: a}
	switch {
	case mode == CrashPanics:
		panic(crash)
	case mode == CrashHalf && n == at:
		return nil, crash
	default:
		return crash, nil
	}
}
