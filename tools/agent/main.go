// Program seatrial-agent runs on a node: it keeps the ledger of mounts and processes, and answers the harness.
//
// It runs on any Linux node without further files, so it is built with CGO_ENABLED=0. It links no client of the API: on
// a control-plane node it calls kubectl. Only `link serve` listens, with mutual TLS. Data goes to standard output,
// messages to standard error; it exits 0 when done, 1 when it failed and 254 for bad arguments.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// The exit codes of the agent.
const (
	exitOK           = 0
	exitFailed       = 1
	exitBadArguments = 254
)

// command is one command of the agent. Its name may be two words.
type command struct {
	name    string
	usage   string // What follows the name, for example "[--follow] FILE".
	summary string // One line, without a full stop.
	// run carries the command out. An error made by badArguments ends the program with exit code 254, any other
	// error with 1; ctx ends on SIGINT and SIGTERM.
	run func(ctx context.Context, std stdio, args []string) error
}

// stdio is what a command may read and write.
type stdio struct {
	in  io.Reader
	out io.Writer    // Data.
	err io.Writer    // Messages.
	log *slog.Logger // Writes to err.
}

func (s stdio) say(answer any) error { return json.NewEncoder(s.out).Encode(answer) }

// commands lists the commands, sorted by name.
func commands() []command {
	return []command{
		{"arm", "--run RUN --step N --life DURATION [--until-boot]",
			"keep an undo, a JSON list of actions on standard input, and start the timer that carries it out", runArm},
		{"armed", "[--run RUN [--step N]]", "print as JSON what is armed on this node", runArmed},
		{"clock", "[--ahead DURATION --boot ID]",
			"print the clocks; with --ahead, put the wall clock that much ahead of the boot clock before", runClock},
		{"damage file", "--run RUN --step N --file FILE --page N VOLUME",
			"print as JSON how a file of a volume is seen by its victim", runDamageFile},
		{"damage inflict", "--run RUN --step N --kind KIND [--file FILE] VOLUME...",
			"damage the file systems of volumes on this node; prints JSON", runDamageInflict},
		{"damage look", "--run RUN --step N VOLUME...", "print as JSON how volumes are seen by their victims",
			runDamageLook},
		{"damage mend", "--run RUN --step N [VOLUME...]", "undo the damage done to volumes; prints JSON",
			runDamageMend},
		{"disarm", "--run RUN --step N", "stop the timer of an undo and remove the undo", runDisarm},
		{"enter", "PROGRAM [ARGUMENT]...",
			"from a privileged pod that sees the node's processes, become a program of the node's", runEnter},
		{"inspect", "--file-system FS [--data-files] FILE",
			"look for damage in a file system that is not mounted, and in data files on it; prints JSON", runInspect},
		{"leaks", "", "print as JSON what there is of the things that a fault can leave on a node", runLeaks},
		{"ledger", "--file FILE [--node NAME] [--processes NAMES] [--before NAMES] [--method METHOD]",
			"write down mounts, processes and held volumes of this node until stopped", runLedger},
		{"link", "stdio SESSION | start SESSION | serve SESSION END | stop SESSION | stop-others SESSION",
			"obey the harness: over standard input and output, or as a unit that listens with mutual TLS", runLink},
		{"marks", "--run RUN --step N RESOURCE", "undo what the owner's marks on API objects stand for", runMarks},
		{"order", "start|carry-out|end|read|drop --run RUN --step N",
			"carry out alone what standard input says: an act, looks meanwhile, and its end", runOrder},
		{"probe dns", "[--timeout DURATION] --name NAME ADDRESS...",
			"print as JSON whether DNS servers answer by UDP and by TCP", runProbeDNS},
		{"probe flow", "[--silence DURATION] [--watch DURATION] ADDRESS",
			"open a TCP connection and print as JSON what becomes of it", runProbeFlow},
		{"probe ping", "[--count N] [--interval DURATION] [--timeout DURATION] [--size N] ADDRESS...",
			"print as JSON how many ICMP echo requests are answered", runProbePing},
		{"probe process", "[--pid PID]... [--program NAME]... [--pod UID]...", "print as JSON which processes run",
			runProbeProcess},
		{"probe tcp", "[--timeout DURATION] ADDRESS...", "print as JSON whether addresses answer", runProbeTCP},
		{"qdisc", "--run RUN --step N DEVICE", "remove the owner's queueing discipline from a device, if it is there",
			runQdisc},
		{"restore", "FILE", "put standard input into a file, unless it is there already", runRestore},
		{"restore-node", "", "give a Node that was deleted what it had, JSON on standard input", runRestoreNode},
		{"tail", "[--from OFFSET] [--follow] FILE", "print a file from an offset in bytes, and what is appended to it",
			runTail},
		{"thaw", "PID:TICKS...",
			"let processes go on that a signal has stopped; TICKS is the start time in /proc/PID/stat", runThaw},
		{"trigger", "--rpc METHOD --volume HANDLE --on begin|end [--count N] [--delay D] FILE -- COMMAND...",
			"run a command once a CSI call is written to a file of facts, unless standard input ends before",
			runTrigger},
		{"undo", "[--run RUN [--step N]] [--bound DURATION]", "carry out what is armed on this node; prints JSON",
			runUndo},
		{"volumes inspect", "[--data-files] NAME...", "inspect local volumes of this node; prints JSON",
			runVolumesInspect},
		{"volumes make", "--file-system FS NAME=MIB...", "make and mount local volumes; prints JSON",
			runVolumesMake},
		{"volumes mount", "", "mount all local volumes of this node; prints JSON", runVolumesMount},
		{"volumes remove", "NAME...", "remove local volumes of this node", runVolumesRemove},
		{"wait", "", "run until stopped, as the program of an image for the agents' pods", runWait},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	code := run(ctx, stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr, log: log}, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, std stdio, args []string) int {
	for _, c := range commands() {
		words := strings.Fields(c.name)
		if len(args) < len(words) || strings.Join(args[:len(words)], " ") != c.name {
			continue
		}
		err := c.run(ctx, std, args[len(words):])
		var bad *argumentError
		switch {
		case err == nil:
			return exitOK
		case errors.As(err, &bad):
			fmt.Fprintf(std.err, "seatrial-agent %s: %v\nusage: seatrial-agent %s %s\n", c.name, err, c.name, c.usage)
			return exitBadArguments
		default:
			fmt.Fprintf(std.err, "seatrial-agent %s: %v\n", c.name, err)
			return exitFailed
		}
	}
	fmt.Fprintf(std.err, "seatrial-agent: no command %q\nusage: seatrial-agent COMMAND [ARGUMENTS]\n\n",
		strings.Join(args, " "))
	for _, c := range commands() {
		fmt.Fprintf(std.err, "  %-15s %s\n", c.name, c.summary)
	}
	return exitBadArguments
}

// argumentError is an error in the arguments of a command.
type argumentError struct{ err error }

func (e *argumentError) Error() string { return e.err.Error() }
func (e *argumentError) Unwrap() error { return e.err }

// badArguments makes an error that ends the program with exit code 254.
func badArguments(format string, args ...any) error {
	return &argumentError{fmt.Errorf(format, args...)}
}

// parse parses flags and returns the operands that follow them: as many as least, or also more.
func parse(fs *flag.FlagSet, args []string, least int, more bool) ([]string, error) {
	fs.SetOutput(io.Discard)
	if err := fs.Parse(args); err != nil {
		return nil, badArguments("%w", err)
	}
	if fs.NArg() < least || fs.NArg() > least && !more {
		return nil, badArguments("want %d operands, got %d", least, fs.NArg())
	}
	return fs.Args(), nil
}

// The numbers of operands of a command.
const (
	exactly = false
	orMore  = true
)

func flags() *flag.FlagSet { return flag.NewFlagSet("", flag.ContinueOnError) }
