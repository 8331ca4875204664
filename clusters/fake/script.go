package fake

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/clusters"
)

// Reply is what a node does with one command or power act. The parts happen in the order of the fields.
type Reply struct {
	// Hang makes the answer never come: the node waits for the end of the context.
	Hang bool
	// Do, when set, computes the answer of a command; Err, Stdout, Stderr and ExitCode are then not looked at.
	Do func(ctx context.Context, cmd clusters.Command, stdin string) (clusters.Result, error)
	// Stdout and Stderr are what a command says. They are said also when Err is set: that is a command that broke
	// down half-way.
	Stdout, Stderr string
	// ExitCode other than 0 makes the command end with a *clusters.ExitError.
	ExitCode int
	// Err is a command that could not be run, or a power act that failed.
	Err error
}

// script is a list of answers to one pattern. The last answer is given again and again.
type script struct {
	pattern []string
	replies []Reply
	used    int
}

func (s *script) next() Reply {
	r := s.replies[min(s.used, len(s.replies)-1)]
	s.used++
	return r
}

// match reports whether argv fits a pattern, in which "*" stands for any one argument and a last "..." for any rest.
func match(pattern, argv []string) bool {
	for i, p := range pattern {
		if p == "..." && i == len(pattern)-1 {
			return true
		}
		if i >= len(argv) || (p != "*" && p != argv[i]) {
			return false
		}
	}
	return len(pattern) == len(argv)
}

// set adds a script in front of the others, or replaces the one with the same pattern.
func set(scripts []*script, pattern []string, replies []Reply) []*script {
	if len(replies) == 0 {
		replies = []Reply{{}}
	}
	scripts = slices.DeleteFunc(scripts, func(s *script) bool { return slices.Equal(s.pattern, pattern) })
	return slices.Insert(scripts, 0, &script{pattern: slices.Clone(pattern), replies: slices.Clone(replies)})
}

// before does the parts of a reply that come ahead of any answer.
func (r Reply) before(ctx context.Context, what string) error {
	if r.Hang {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (r Reply) answer(ctx context.Context, node string, cmd clusters.Command, stdin string) (clusters.Result, error) {
	if r.Do != nil {
		return r.Do(ctx, cmd, stdin)
	}
	res := clusters.Result{Stderr: []byte(r.Stderr), ExitCode: r.ExitCode}
	if cmd.Stdout == nil {
		res.Stdout = []byte(r.Stdout)
	} else if _, err := bytes.NewBufferString(r.Stdout).WriteTo(cmd.Stdout); err != nil {
		return res, fmt.Errorf("write output of %q on node %q: %w", cmd.Argv, node, err)
	}
	if r.Err != nil {
		return res, fmt.Errorf("run %q on node %q: %w", cmd.Argv, node, r.Err)
	}
	if r.ExitCode != 0 {
		return res, &clusters.ExitError{Node: node, Argv: cmd.Argv, ExitCode: r.ExitCode, Stderr: r.Stderr}
	}
	return res, nil
}
