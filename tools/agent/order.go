package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/durable"
)

// orderDir holds orders and what was done of them. The next boot ends both.
const orderDir = "/run/seatrial/order"

// stepBound is how long a step of an order may take.
const stepBound = 20 * time.Second

// orderFile is where an order is, and beside it, with the extension .did, what was done of it.
type orderFile struct {
	path string
	unit string
}

func orderOf(owner undo.Owner) orderFile {
	return orderFile{path: filepath.Join(orderDir, owner.Name()+".json"), unit: owner.Name() + "-order.service"}
}

func (f orderFile) did() string { return f.path + ".did" }

// runOrder starts, carries out, ends, prints or removes the order of an owner.
func runOrder(ctx context.Context, std stdio, args []string) error {
	if len(args) == 0 {
		return badArguments("it wants start, carry-out, end, read or drop")
	}
	owner, _, err := parseOwned(flags(), args[1:], 0, exactly)
	if err != nil {
		return err
	}
	f, host := orderOf(owner), here(commandBound)
	switch args[0] {
	case "start":
		return f.start(ctx, host, std.in, owner)
	case "carry-out":
		return f.carryOut(ctx, here(stepBound))
	case "end":
		return f.end(ctx, host)
	case "read":
		record, err := f.read()
		return errors.Join(err, std.say(record))
	case "drop":
		return f.drop(ctx, host)
	}
	return badArguments("it wants start, carry-out, end, read or drop, got %q", args[0])
}

// start stores the order and has systemd carry it out: it must outlive the connection that it may cut.
func (f orderFile) start(ctx context.Context, run undo.Runner, in io.Reader, owner undo.Owner) error {
	var o nodeagent.Order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return badArguments("the order: %w", err)
	}
	if len(o.Act.Argv) == 0 || len(o.End.Argv) == 0 || o.Lead < 0 || o.Lasts <= 0 || o.Every <= 0 {
		return badArguments("the order wants an act, its end, and times above 0s")
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	if err := durable.WriteJSON(f.path, o); err != nil {
		return fmt.Errorf("keep the order: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// Mixed: a stop sends SIGTERM to this program alone, and not to the command with which it then ends the act.
	argv := append([]string{"systemd-run", "--quiet", "--collect", "--property=KillMode=mixed", "--unit=" + f.unit,
		self, "order", "carry-out"}, owner.Flags()...)
	if _, err := run(ctx, argv, ""); err != nil {
		return fmt.Errorf("start the order's unit: %w", err)
	}
	return nil
}

// carryOut carries the order out. When ctx ends, the act is ended at once.
func (f orderFile) carryOut(ctx context.Context, run undo.Runner) (err error) {
	var o nodeagent.Order
	if err := durable.ReadJSON(f.path, &o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	out, err := os.OpenFile(f.did(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	step := func(ctx context.Context, s nodeagent.Step) error {
		did := nodeagent.Did{Argv: s.Argv, Begin: bootclock.Now()}
		said, failed := run(ctx, s.Argv, s.Stdin)
		did.Out, did.End = said, bootclock.Now()
		if failed != nil {
			did.Error = failed.Error()
		}
		return errors.Join(failed, json.NewEncoder(out).Encode(did))
	}
	if err := await.For(ctx, o.Lead); err != nil {
		return err // Nothing was done.
	}
	until, stop := context.WithTimeout(ctx, o.Lasts)
	defer stop()
	acted := step(until, o.Act)
	for acted == nil && until.Err() == nil {
		for _, look := range o.Looks {
			_ = step(until, look) // What it says is in the record.
		}
		_ = await.For(until, o.Every) // The loop looks at the end of until.
	}
	return errors.Join(acted, step(context.WithoutCancel(ctx), o.End))
}

// end ends the order's unit, which ends the act, and waits for it.
func (f orderFile) end(ctx context.Context, run undo.Runner) error {
	if _, err := run(ctx, []string{"systemctl", "is-active", f.unit}, ""); err != nil {
		return ctx.Err() // It is not there, or over.
	}
	if _, err := run(ctx, []string{"systemctl", "stop", f.unit}, ""); err != nil {
		return fmt.Errorf("end the order: %w", err)
	}
	return nil
}

func (f orderFile) read() (r nodeagent.OrderRecord, err error) {
	var o nodeagent.Order
	if err := durable.ReadJSON(f.path, &o); err != nil {
		return r, fmt.Errorf("read the order: %w", err)
	}
	in, err := os.Open(f.did())
	if err != nil {
		return r, fmt.Errorf("read what was done of the order: %w", err)
	}
	defer func() { _ = in.Close() }() // It was only read.
	for all := json.NewDecoder(in); ; {
		var did nodeagent.Did
		if all.Decode(&did) != nil {
			break // The end, or it is being written.
		}
		r.Did = append(r.Did, did)
	}
	if n := len(r.Did); n > 1 {
		last := r.Did[n-1]
		r.Over = last.Error == "" && slices.Equal(last.Argv, o.End.Argv)
	}
	return r, nil
}

// drop ends the order and removes what is kept of it.
func (f orderFile) drop(ctx context.Context, run undo.Runner) error {
	errs := []error{f.end(ctx, run)}
	for _, path := range []string{f.path, f.did()} {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
