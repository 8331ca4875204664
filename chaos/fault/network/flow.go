package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// flowSilence is how long a flow must be unheard to be dead. The first byte that is not acknowledged is sent again
// after 0.2 s, 0.6 s, 1.4 s and 3 s: four losses in a row.
const flowSilence = 3 * time.Second

// flow is an established connection, watched by the agent on the node while a fault is injected.
type flow struct {
	path    path
	reports chan probe.FlowReport
	stop    context.CancelFunc
	ended   chan struct{} // Closed when the watch has ended; err is set then.
	err     error
}

// openFlow opens a flow from an end to an address, and returns when bytes were acknowledged. The watch outlives ctx:
// stop it.
func openFlow(ctx context.Context, from end, to netip.AddrPort, life time.Duration) (*flow, error) {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &flow{path: path{from: from.name, to: to}, stop: stop,
		reports: make(chan probe.FlowReport, 4), ended: make(chan struct{})}
	read, write := io.Pipe()
	cmd := clusters.Command{
		Argv: from.argv(undo.AgentPath, "probe", "flow",
			"--silence", flowSilence.String(), "--watch", life.String(), to.String()),
		Stdout: write,
	}
	go func() {
		err := io.EOF
		defer func() {
			if p := recover(); p != nil { // The guard cannot catch it here, and a fault may be in place.
				err = fmt.Errorf("panic: %v", p)
			}
			write.CloseWithError(err)
		}()
		if _, failed := from.node.Exec(watching, cmd); failed != nil {
			err = failed
		}
	}()
	go func() {
		defer close(f.ended)
		f.err = f.listen(watching, read)
		read.CloseWithError(io.ErrClosedPipe)
	}()
	r, err := f.next(ctx)
	if err == nil && r.State != probe.FlowOpen {
		err = fmt.Errorf("it is %s: %s", r.State, r.Error)
	}
	if err != nil {
		f.close()
		return nil, fmt.Errorf("open flow %s: %w", f.path, err)
	}
	return f, nil
}

// listen passes the agent's words on until there are no more.
func (f *flow) listen(ctx context.Context, from io.Reader) error {
	for words := json.NewDecoder(from); ; {
		var r probe.FlowReport
		if err := words.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("decode what is said of it: %w", err)
		}
		select {
		case f.reports <- r:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// next returns the next word on the flow.
func (f *flow) next(ctx context.Context) (probe.FlowReport, error) {
	select {
	case r := <-f.reports:
		return r, nil
	case <-ctx.Done():
	case <-f.ended:
	}
	select {
	case r := <-f.reports: // It came with the end, or before.
		return r, nil
	default:
	}
	select {
	case <-f.ended:
		return probe.FlowReport{}, errors.Join(errors.New("the watch has ended"), f.err)
	default:
		return probe.FlowReport{}, context.Cause(ctx)
	}
}

// flowsDead waits until all flows are dead, or were reset where resets are sent.
func flowsDead(ctx context.Context, flows []*flow, bound time.Duration, resets bool) ([]fault.Fact, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("bytes are still acknowledged after %s", bound))
	defer cancel()
	return each(flows, func(f *flow) (fault.Fact, error) { return f.dead(ctx, resets) })
}

// flowsLive waits for longer than a flow would need to be found dead, and hears nothing of any.
func flowsLive(ctx context.Context, flows []*flow, now func() history.Time) ([]fault.Fact, error) {
	begin := now()
	bounded, cancel := context.WithTimeoutCause(ctx, flowSilence+time.Second, errStillOpen)
	defer cancel()
	return each(flows, func(f *flow) (fault.Fact, error) {
		if err := f.lives(bounded); err != nil {
			return fault.Fact{}, err
		}
		return fault.Fact{Span: history.Between(begin, now()),
			Sentence: fmt.Sprintf("the established flow %s goes on", f.path)}, nil
	})
}

// each returns a fact for each flow, as far as the first error.
func each(flows []*flow, see func(*flow) (fault.Fact, error)) ([]fault.Fact, error) {
	var facts []fault.Fact
	for _, f := range flows {
		fact, err := see(f)
		if err != nil {
			return facts, err
		}
		facts = append(facts, fact)
	}
	return facts, nil
}

// dead waits until the flow is dead, or was reset where resets are sent.
func (f *flow) dead(ctx context.Context, resets bool) (fault.Fact, error) {
	r, err := f.next(ctx)
	switch {
	case err != nil:
		return fault.Fact{}, fmt.Errorf("wait for the established flow %s to go dead: %w", f.path, err)
	case resets && r.State == probe.FlowClosed && r.Reset:
		return fault.Fact{Span: history.At(r.At),
			Sentence: fmt.Sprintf("the established flow %s was reset", f.path)}, nil
	case r.State != probe.FlowDead:
		return fault.Fact{}, fmt.Errorf("the established flow %s did not go dead: it is %s: %s",
			f.path, r.State, r.Error)
	}
	return fault.Fact{Span: history.Between(r.LastAck, r.At), Sentence: fmt.Sprintf(
		"the established flow %s went dead: %d bytes unacknowledged for %s", f.path, r.Pending,
		r.At.Sub(r.LastAck).Round(100*time.Millisecond))}, nil
}

// lives hears nothing of the flow until ctx ends with errStillOpen.
func (f *flow) lives(ctx context.Context) error {
	r, err := f.next(ctx)
	switch {
	case err == nil:
		return fmt.Errorf("the established flow %s did not go on: it is %s: %s", f.path, r.State, r.Error)
	case !errors.Is(err, errStillOpen):
		return fmt.Errorf("watch the established flow %s: %w", f.path, err)
	}
	return nil
}

// errStillOpen is the cause of the end of a watch during which nothing was said.
var errStillOpen = errors.New("it is open")

// close ends the watch and waits for its end. On the node it ends by itself, at the latest after its life.
func (f *flow) close() {
	f.stop()
	<-f.ended
}
