// Package link is the protocol between the harness and its agent on a node: one operation per connection, in frames,
// over any byte stream. A command whose caller goes away is killed with everything it started, except what it handed to
// another process such as systemd.
package link

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// The kinds of frames. Each is one byte for the kind, four for the length, and the payload.
const (
	kindRequest  = 'R' // JSON of a request; the first frame of an operation.
	kindStdin    = 'I' // A piece of standard input; the next one waits for kindTaken.
	kindStdinEnd = 'E'
	kindKill     = 'K' // Kill the command; kindDone follows.
	kindTaken    = 'A' // The command has read the last piece of standard input.
	kindStdout   = '1'
	kindStderr   = '2'
	kindDone     = 'X' // JSON of an answer; the last frame.
)

const (
	chunk    = 256 << 10 // Of standard input.
	maxFrame = 4 << 20   // Linux accepts an argv of two megabytes.
	// killBound is how long killing a command may take, on the node and for its caller.
	killBound = 5 * time.Second
)

// The operations.
const (
	opExec  = "exec"
	opDial  = "dial"
	opClock = "clock"
	opBegin = "begin" // A fault; see Limits.
	opEnd   = "end"
)

type request struct {
	Op      string   `json:"op"`
	Argv    []string `json:"argv,omitempty"`
	Stdin   bool     `json:"stdin,omitempty"`
	Network string   `json:"network,omitempty"`
	Address string   `json:"address,omitempty"`

	Owner string        `json:"owner,omitempty"`
	Fault string        `json:"fault,omitempty"`
	Life  time.Duration `json:"life,omitempty"`
}

type answer struct {
	Error string `json:"error,omitempty"` // Why the operation failed.
	Code  int    `json:"code,omitempty"`  // Exit code of the command; 128 plus the signal that killed it.
	Boot  int64  `json:"boot,omitempty"`  // The boot clock, in nanoseconds.
	Limit string `json:"limit,omitempty"` // The error is ErrLimit, and this is the rest of its text.
}

// frames writes whole frames. It is safe for concurrent use.
type frames struct {
	mu sync.Mutex
	to io.Writer
}

func (f *frames) write(kind byte, data []byte) error {
	frame := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(data)))
	frame = append(frame, data...)
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.to.Write(frame)
	return err
}

func (f *frames) writeJSON(kind byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.write(kind, data)
}

func readFrame(r io.Reader) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > maxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes, want %d at most", size, maxFrame)
	}
	data = make([]byte, size)
	_, err = io.ReadFull(r, data)
	return head[0], data, err
}

// readAnswer reads the frame that ends an operation.
func readAnswer(r io.Reader) (answer, error) {
	kind, data, err := readFrame(r)
	if err == nil && kind != kindDone {
		err = fmt.Errorf("frame %q, want %q", kind, kindDone)
	}
	if err != nil {
		return answer{}, fmt.Errorf("read the agent's answer: %w", err)
	}
	return decodeAnswer(data)
}

func decodeAnswer(data []byte) (a answer, err error) {
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("read the agent's answer: %w", err)
	}
	switch {
	case a.Limit != "":
		return a, refuse("%s", a.Limit)
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

// failed is the answer of an operation that ended with an error, or without one.
func failed(err error) answer {
	switch {
	case err == nil:
		return answer{}
	case errors.Is(err, ErrLimit):
		return answer{Limit: strings.TrimPrefix(err.Error(), ErrLimit.Error()+": ")}
	}
	return answer{Error: err.Error()}
}

// Streams are those of a command. Stdin may be nil.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Exec runs argv to its end and returns its exit code. It returns an error if the command could not be run, or was
// killed because ctx ended. It closes the connection.
func Exec(ctx context.Context, conn net.Conn, argv []string, s Streams) (code int, err error) {
	defer func() { _ = conn.Close() }() // The answer was read.
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	out := &frames{to: conn}
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Now().Add(killBound)) // The agent may be silent.
		_ = out.write(kindKill, nil)                    // A failure shows in the answer.
	})
	defer stop()
	if err := out.writeJSON(kindRequest, request{Op: opExec, Argv: argv, Stdin: s.Stdin != nil}); err != nil {
		return 0, errors.Join(ctx.Err(), fmt.Errorf("ask the agent: %w", err))
	}
	taken, ended, fed := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	defer close(ended)
	if s.Stdin != nil {
		go func() { fed <- feed(out, s.Stdin, taken, ended) }()
	}
	code, err = receive(conn, s, taken)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err == nil && code == 0 {
		select { // A blocked reader must not delay a command that did not read.
		case err = <-fed:
		default:
		}
	}
	return code, err
}

// receive passes the command's output on until it has ended.
func receive(conn io.Reader, s Streams, taken chan<- struct{}) (int, error) {
	for {
		kind, data, err := readFrame(conn)
		if err != nil {
			return 0, fmt.Errorf("the connection to the agent ended before the command: %w", err)
		}
		switch kind {
		case kindTaken:
			taken <- struct{}{}
		case kindStdout:
			if _, err := s.Stdout.Write(data); err != nil {
				return 0, fmt.Errorf("pass standard output on: %w", err)
			}
		case kindStderr:
			if _, err := s.Stderr.Write(data); err != nil {
				return 0, fmt.Errorf("pass standard error on: %w", err)
			}
		case kindDone:
			a, err := decodeAnswer(data)
			return a.Code, err
		}
	}
}

// feed sends standard input one piece at a time, so that the agent never stops reading the connection: it would not
// notice that its caller has gone.
func feed(out *frames, stdin io.Reader, taken, ended <-chan struct{}) error {
	buf := make([]byte, chunk)
	for {
		n, err := stdin.Read(buf)
		if n > 0 {
			if failed := out.write(kindStdin, buf[:n]); failed != nil {
				return nil //nolint:nilerr // The reader of the connection tells why.
			}
			select {
			case <-taken:
			case <-ended:
				return nil
			}
		}
		if err != nil {
			_ = out.write(kindStdinEnd, nil) // As above.
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}

// Dial turns conn into a TCP connection from the agent to an address. It closes conn if it fails.
func Dial(ctx context.Context, conn net.Conn, address string) error {
	if err := once(ctx, conn, request{Op: opDial, Network: "tcp", Address: address}); err != nil {
		return errors.Join(err, conn.Close())
	}
	return nil
}

// Begin asks the agent for leave to do harm for an owner until its undo is due, after life. The error wraps ErrLimit if
// the limits forbid it. It closes the connection.
func Begin(ctx context.Context, conn net.Conn, owner, fault string, life time.Duration) error {
	return errors.Join(once(ctx, conn, request{Op: opBegin, Owner: owner, Fault: fault, Life: life}), conn.Close())
}

// End gives the owner's leave back, if there is one. It closes the connection.
func End(ctx context.Context, conn net.Conn, owner string) error {
	return errors.Join(once(ctx, conn, request{Op: opEnd, Owner: owner}), conn.Close())
}

func ask(conn io.ReadWriter, r request) (answer, error) {
	if err := (&frames{to: conn}).writeJSON(kindRequest, r); err != nil {
		return answer{}, fmt.Errorf("ask the agent: %w", err)
	}
	return readAnswer(conn)
}

// once is ask until ctx ends.
func once(ctx context.Context, conn net.Conn, r request) error {
	return within(ctx, conn, func() error {
		_, err := ask(conn, r)
		return err
	})
}

// Clock relates the node's boot clock to now, a clock of the caller: the node's t is t plus offset, give or take
// margin, which is half the time of the fastest of some round trips. It closes the connection.
func Clock(ctx context.Context, conn net.Conn, now func() int64) (offset, margin time.Duration, err error) {
	const rounds = 16
	margin = -1
	err = within(ctx, conn, func() error {
		for range rounds {
			before := now()
			a, err := ask(conn, request{Op: opClock})
			if err != nil {
				return err
			}
			after := now()
			// The node read its clock between the two. Half the trip, rounded up, covers both ends.
			if half := time.Duration(after-before+1) / 2; margin < 0 || half < margin {
				offset, margin = time.Duration(before+int64(half)-a.Boot), half
			}
		}
		return nil
	})
	return offset, margin, errors.Join(err, conn.Close())
}

// Hello waits for an answer of the agent. The connection then serves one operation.
func Hello(ctx context.Context, conn net.Conn) error {
	return once(ctx, conn, request{Op: opClock})
}

// within ends the reads and writes of do when ctx ends.
func within(ctx context.Context, conn net.Conn, do func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // Ends what do waits for.
	err := do()
	if !stop() {
		return errors.Join(ctx.Err(), err)
	}
	return err
}
