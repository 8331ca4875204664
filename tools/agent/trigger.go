package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// awaited is the call that a trigger waits for.
type awaited struct {
	rpc, volume string
	end         bool
	count       int // How many calls it takes.
	delay       time.Duration
}

func runTrigger(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	rpc := fs.String("rpc", "", "method of the call, for example NodeUnstageVolume")
	volume := fs.String("volume", "", "handle of the volume that the call is for")
	on := fs.String("on", "begin", "begin, or end: its end with the code OK")
	count := fs.Int("count", 1, "how many such calls it takes")
	delay := fs.Duration("delay", 0, "how long the command is put off after the last of them")
	rest, err := parse(fs, args, 0, orMore)
	switch {
	case err != nil:
		return err
	case *count < 1 || *delay < 0:
		return badArguments("--count is %d, want 1 at least; --delay is %s, want no less than 0s", *count, *delay)
	case *rpc == "" || *volume == "":
		return badArguments("--rpc and --volume must not be empty")
	case *on != "begin" && *on != "end":
		return badArguments("--on is %q, want begin or end", *on)
	case len(rest) < 3 || rest[1] != "--":
		return badArguments("a file, --, and a command are missing, got %q", rest)
	}
	want := awaited{rpc: *rpc, volume: *volume, end: *on == "end", count: *count, delay: *delay}
	ctx, cancel := untilInputEnds(ctx, std)
	defer cancel()
	return want.then(ctx, std.out, rest[0], rest[2:])
}

// maxCall bounds a line of the file of facts in bytes.
const maxCall = 1 << 20

// then waits until the call is written to the file, runs the command, and prints both.
func (a awaited) then(ctx context.Context, out io.Writer, path string, argv []string) error {
	from, err := endOf(path)
	if err != nil {
		return err
	}
	events := json.NewEncoder(out)
	if err := events.Encode(nodeagent.TriggerEvent{Waits: true}); err != nil {
		return fmt.Errorf("print that it waits: %w", err)
	}
	read, write := io.Pipe()
	defer func() { _ = read.Close() }() // It ends the writer below; it never fails.
	go func() { _ = write.CloseWithError(followFile(ctx, write, path, from)) }()
	lines := bufio.NewScanner(read)
	lines.Buffer(nil, maxCall)
	var done nodeagent.TriggerEvent
	for left := a.count; left > 0; {
		if !lines.Scan() {
			return lines.Err() // None if the wait was ended.
		}
		if at, ok := a.in(lines.Bytes()); ok {
			done.Call, done.Seen = at, bootclock.Now()
			left--
		}
	}
	if ctx.Err() != nil || a.delay > 0 && await.For(ctx, a.delay) != nil {
		return nil // As above.
	}
	text, err := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...).CombinedOutput()
	done.Done = bootclock.Now()
	if err != nil {
		done.Error = fmt.Sprintf("run %q: %v: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(text)))
	}
	if err := events.Encode(done); err != nil {
		return fmt.Errorf("print what was done: %w", err)
	}
	return nil
}

// in reports whether a line is the awaited call, and when it began or ended.
func (a awaited) in(line []byte) (history.Time, bool) {
	if !bytes.Contains(line, []byte(a.rpc)) { // Most lines are others, and to decode takes time.
		return 0, false
	}
	var e history.Event
	if json.Unmarshal(line, &e) != nil || e.CSI == nil {
		return 0, false
	}
	ok := e.CSI.RPC == a.rpc && e.CSI.Volume == a.volume && e.CSI.End == a.end && (!a.end || e.CSI.Code == "OK")
	return e.Span.NotAfter, ok
}
