package undo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
)

// Runner runs a command on the node to heal and returns what it said. A command that exits non-zero is an error.
type Runner func(ctx context.Context, argv []string, stdin string) (stdout string, err error)

// Only says whose marks are undone. Nil means all of ours.
type Only func(Owner) bool

// Of returns an Only for the marks of one run; a step of 0 or less means all of its steps.
func Of(run string, step int) Only {
	return func(o Owner) bool { return o.Run == run && (step <= 0 || o.Step == step) }
}

// Report says what was undone.
type Report struct {
	Node   string   `json:"node,omitempty"`
	Undone []string `json:"undone"`         // Armed undos that were carried out, by their owners' names.
	Timers []string `json:"timers"`         // Timers that were stopped.
	Held   []string `json:"held,omitempty"` // What was held: the mark's owner, and the name of the thing.
	API    []string `json:"api,omitempty"`  // What was undone of API objects, and whose it was.
	Power  string   `json:"power,omitempty"`
}

// Nothing reports that there was nothing to undo.
func (r Report) Nothing() bool {
	return len(r.Undone) == 0 && len(r.Timers) == 0 && len(r.Held) == 0 && len(r.API) == 0 && r.Power == ""
}

// String lists what was undone, in one line.
func (r Report) String() string {
	return fmt.Sprintf("undone %v, timers %v, held %v, API objects %q, power %q", r.Undone, r.Timers, r.Held, r.API,
		r.Power)
}

// Node undoes what is left on one node and returns what that was; what was gone already is not in it. On a node of the
// control plane it undoes what is left of API objects as well, and waits for the API server for at most apiBound. It
// goes on after an error, and returns all of them. It may be run at any time, again, and beside itself.
func Node(ctx context.Context, run Runner, only Only) (Report, error) {
	return Within(ctx, run, only, apiBound)
}

// Within is Node with another bound for what is left of API objects.
func Within(ctx context.Context, run Runner, only Only, bound time.Duration) (Report, error) {
	only = orAll(only)
	report := Report{Undone: []string{}, Timers: []string{}}
	err := things(ctx, run, only, &report)
	apiErr := API(ctx, run, only, bound, &report)
	// The timers come last: until the rest is gone, they are what still would undo it.
	if apiErr == nil {
		err = errors.Join(err, timers(ctx, run, only, &report))
	}
	return report, errors.Join(err, apiErr)
}

func orAll(only Only) Only {
	if only == nil {
		return func(Owner) bool { return true }
	}
	return only
}

// things undoes what is left on a node but for its timers.
func things(ctx context.Context, run Runner, only Only, report *Report) error {
	return errors.Join(records(ctx, run, only, report), held(ctx, run, only, report))
}

// bootBound is how long systemd may take to answer on a node that was started a moment ago.
const bootBound = 30 * time.Second

// systemctl asks systemd for something. On a node that is just coming up it waits for systemd to be there.
func systemctl(ctx context.Context, run Runner, what string, args ...string) (out string, err error) {
	err = afterBoot(ctx, what, func(ctx context.Context) error {
		out, err = run(ctx, append([]string{"systemctl"}, args...), "")
		return err
	})
	return out, err
}

// afterBoot does something, again while it fails because the node is just coming up and systemd is not there yet.
func afterBoot(ctx context.Context, what string, do func(context.Context) error) error {
	return await.Until(ctx, "systemd to "+what, 500*time.Millisecond, bootBound,
		func(ctx context.Context) (bool, string, error) {
			err := do(ctx)
			comingUp := err != nil && strings.Contains(err.Error(), "Failed to connect to bus")
			if err != nil && !comingUp && ctx.Err() == nil { // After the bound it is the wait that has failed.
				return false, "", await.Stop(err)
			}
			return err == nil, "", err
		})
}

func timers(ctx context.Context, run Runner, only Only, report *Report) error {
	waiting, err := armedTimers(ctx, run, only)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range waiting {
		_, err := run(ctx, []string{"systemctl", "stop", name}, "")
		if err == nil {
			report.Timers = append(report.Timers, name)
			continue
		}
		if now, again := armedTimers(ctx, run, only); again == nil && !slices.Contains(now, name) {
			continue // Another heal was quicker, or it has fired.
		}
		errs = append(errs, fmt.Errorf("stop timer %q: %w", name, err))
	}
	return errors.Join(errs...)
}

// armedTimers returns the names of the undo timers that wait.
func armedTimers(ctx context.Context, run Runner, only Only) ([]string, error) {
	out, err := systemctl(ctx, run, "list the undo timers",
		"list-units", "--type=timer", "--all", "--full", "--plain", "--no-legend", TimerPattern)
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(out) { // For example "seatrial-heal-r1-3.timer loaded active waiting /usr/...".
		word := strings.Fields(line)
		if len(word) < 4 || word[2] != "active" { // It has fired, or was stopped already.
			continue
		}
		if owner, ours := FromTimer(word[0]); ours && only(owner) {
			names = append(names, word[0])
		}
	}
	return names, nil
}
