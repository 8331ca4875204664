package nodeagent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/seatrial/seatrial/clusters"
)

// stopBound is how long a command may take to end after its standard input; then its connection is cut.
const stopBound = 10 * time.Second

// Stream is a command of the agent that answers line by line. It outlives the context that started it: stop it.
type Stream[T any] struct {
	input *io.PipeWriter // Of a held command, else nil.
	cut   context.CancelFunc
	lines chan T
	ended chan struct{} // Closed when the command has ended; err is set then.
	err   error
}

// start starts a command. A held one ends with its standard input, and so with the harness.
func start[T any](ctx context.Context, a Agent, held bool, args ...string) *Stream[T] {
	running, cut := context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // G118: stop calls it.
	s := &Stream[T]{cut: cut, lines: make(chan T, 4), ended: make(chan struct{})}
	read, write := io.Pipe()
	cmd := clusters.Command{Argv: a.argv(args), Stdout: write}
	if held {
		cmd.Stdin, s.input = io.Pipe()
	}
	go func() {
		err := io.EOF
		defer func() {
			if p := recover(); p != nil { // A panic here would end the harness while a fault is active.
				err = fmt.Errorf("panic: %v", p)
			}
			_ = write.CloseWithError(err) // Never fails.
		}()
		if _, failed := a.Node.Exec(running, cmd); failed != nil {
			err = failed
		}
	}()
	go func() {
		defer close(s.ended)
		s.err = s.read(running, a, read)
		_ = read.CloseWithError(io.ErrClosedPipe) // Never fails.
	}()
	return s
}

// read passes the answers on until the command ends. It reads the node's clock with the first answer only: the node may
// be cut off when later ones arrive.
func (s *Stream[T]) read(ctx context.Context, a Agent, from io.Reader) error {
	lines := bufio.NewScanner(from)
	var clock clusters.NodeClock
	for first := true; lines.Scan(); first = false {
		if first {
			var err error
			if clock, err = a.clockOf(ctx); err != nil {
				return err
			}
		}
		var answer T
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			return fmt.Errorf("decode %.80q: %w", lines.Text(), err)
		}
		convert(&answer, clock)
		select {
		case s.lines <- answer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return lines.Err()
}

// Next returns the next answer.
func (s *Stream[T]) Next(ctx context.Context) (answer T, err error) {
	select {
	case answer = <-s.lines:
		return answer, nil
	case <-ctx.Done():
	case <-s.ended:
	}
	select {
	case answer = <-s.lines: // It came before the end.
		return answer, nil
	default:
	}
	select {
	case <-s.ended:
		return answer, errors.Join(errors.New("the agent has ended"), s.err)
	default:
		return answer, context.Cause(ctx)
	}
}

// Stop ends the command, waits for its end and drops answers not read.
func (s *Stream[T]) Stop() error {
	if s.input == nil {
		s.cut()
		<-s.ended
		return nil // It ended because it was cut.
	}
	defer s.cut()
	_ = s.input.Close() // Never fails.
	defer time.AfterFunc(stopBound, s.cut).Stop()
	for {
		select {
		case <-s.lines:
		case <-s.ended:
			return s.err
		}
	}
}
