package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/linux"
)

// FlowState is the state of a flow.
type FlowState string

// The states of a flow. All but FlowOpen are final.
const (
	FlowOpen   FlowState = "open"   // Established; the far side has acknowledged bytes.
	FlowDead   FlowState = "dead"   // Written bytes were not acknowledged for some time.
	FlowClosed FlowState = "closed" // The far side ended it, so its packets still arrive.
	FlowOver   FlowState = "over"   // Still open at the end of the watch.
)

// FlowReport is the state of a flow at a time.
type FlowReport struct {
	Address string       `json:"address"`
	State   FlowState    `json:"state"`
	At      history.Time `json:"at" clock:"to"`
	LastAck history.Time `json:"lastAck" clock:"to"` // When the far side was last heard, to 1 ms.
	Pending int          `json:"pending"`            // Bytes written and not acknowledged.
	Reset   bool         `json:"reset,omitempty"`    // It was closed by a reset.
	Error   string       `json:"error,omitempty"`
}

// trickle is how often a byte is sent.
const trickle = 200 * time.Millisecond

// opening is the start of a TLS record of 256 bytes and, to a MySQL server, of a handshake response of 64 KiB. Either
// server waits for the rest and so keeps the connection open: the API server for 32 s, MySQL as long as bytes arrive.
const opening = "\x16\x03\x01\x01\x00"

// Flow opens a TCP connection to address and sends a byte every 200 ms. It reports FlowOpen once bytes are
// acknowledged, and then one final state, after watch at the latest. It returns an error if the flow cannot be opened
// or say fails.
func Flow(ctx context.Context, address string, silence, watch time.Duration, say func(FlowReport) error) error {
	ctx, cancel := context.WithTimeout(ctx, watch)
	defer cancel()
	conn, err := (&net.Dialer{Timeout: silence}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("open flow: %w", err)
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return errors.Join(fmt.Errorf("open flow to %s: %T is no TCP connection", address, conn), conn.Close())
	}
	f := flow{conn: tcp, address: address, silence: silence, ended: make(chan error, 1)}
	go f.listen()
	err = f.watch(ctx, say)
	return errors.Join(err, conn.Close())
}

type flow struct {
	conn    *net.TCPConn
	address string
	silence time.Duration
	ended   chan error // Receives the end of the far side's half.
}

// listen waits for the far side's end or the connection's.
func (f *flow) listen() {
	var buf [512]byte
	for {
		if _, err := f.conn.Read(buf[:]); err != nil {
			f.ended <- err
			return
		}
	}
}

func (f *flow) watch(ctx context.Context, say func(FlowReport) error) error {
	if _, err := f.conn.Write([]byte(opening)); err != nil {
		return fmt.Errorf("write to flow: %w", err)
	}
	ticks := time.NewTicker(trickle)
	defer ticks.Stop()
	open := false
	for {
		select {
		case <-ctx.Done():
			return say(f.report(FlowOver, nil))
		case err := <-f.ended:
			return say(f.report(FlowClosed, err))
		case <-ticks.C:
		}
		r := f.report(FlowOpen, nil)
		switch {
		case r.Error != "":
			return fmt.Errorf("watch flow to %s: %s", f.address, r.Error)
		case !open && r.Pending == 0:
			open = true
			if err := say(r); err != nil {
				return err
			}
		case r.Pending > 0 && r.At.Sub(r.LastAck) >= f.silence:
			r.State = FlowDead
			return say(r)
		}
		// The send buffer takes hundreds of kilobytes: a byte never blocks within the watch.
		if _, err := f.conn.Write([]byte{0}); err != nil {
			return say(f.report(FlowClosed, f.cause(ctx, err)))
		}
	}
}

// cause returns what ended the connection after a failed write; the reader's error is more specific.
func (f *flow) cause(ctx context.Context, written error) error {
	if errors.Is(written, unix.ECONNRESET) {
		return written
	}
	select {
	case err := <-f.ended:
		return err
	case <-ctx.Done():
		return written
	}
}

// report asks the kernel for the state of the flow.
func (f *flow) report(state FlowState, ended error) FlowReport {
	r := FlowReport{Address: f.address, State: state, At: bootclock.Now()}
	if ended != nil {
		r.Error = ended.Error()
		r.Reset = errors.Is(ended, unix.ECONNRESET)
	}
	raw, err := f.conn.SyscallConn()
	if err != nil {
		r.Error = err.Error()
		return r
	}
	var since uint32
	var asked error
	err = raw.Control(func(fd uintptr) { since, r.Pending, asked = linux.SinceAck(int(fd)) })
	if err = errors.Join(err, asked); err != nil {
		r.Error = err.Error()
		return r
	}
	r.LastAck = r.At.Add(-time.Duration(since) * time.Millisecond)
	return r
}
