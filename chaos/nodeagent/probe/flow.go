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
)

// FlowState is what has become of an established flow.
type FlowState string

// The states of a flow. Each but FlowOpen is the last word.
const (
	FlowOpen   FlowState = "open"   // It is established, and the far side has acknowledged bytes.
	FlowDead   FlowState = "dead"   // Bytes were written, and for some time no acknowledgement came.
	FlowClosed FlowState = "closed" // The far side ended it: whatever else happened, its packets still come through.
	FlowOver   FlowState = "over"   // It lived to the end of the watch.
)

// FlowReport is one word on a flow.
type FlowReport struct {
	Address string       `json:"address"`
	State   FlowState    `json:"state"`
	At      history.Time `json:"at" clock:"to"`      // When it was said.
	LastAck history.Time `json:"lastAck" clock:"to"` // When the far side was last heard, to 1 ms.
	Pending int          `json:"pending"`            // Bytes written and not acknowledged.
	Reset   bool         `json:"reset,omitempty"`    // It was closed by a reset.
	Error   string       `json:"error,omitempty"`
}

// trickle is how often a byte is sent.
const trickle = 200 * time.Millisecond

// opening looks to a TLS server like the start of a record of 256 bytes, and to a MySQL server like the start of an
// answer of 64 KiB to its greeting: either waits for the rest, and so keeps the connection open, the API server for
// 32 s and a MySQL server for as long as a byte comes now and then. To any other server it is five bytes.
const opening = "\x16\x03\x01\x01\x00"

// Flow opens a TCP connection to address, sends a byte every 200 ms, and says when the far side has acknowledged some
// (FlowOpen) and then when it has not been heard for silence although bytes are on the way (FlowDead). It returns
// after the last word, at the latest after watch. An error is a flow that could not be opened, or of say.
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
	ended   chan error // Takes what ended the far side's half.
}

// listen waits for the far side's end. It ends with the connection.
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

// cause returns what ended the connection, once a write has failed: the reader may have been told before.
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

// report asks the kernel how the flow is.
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
	var info *unix.TCPInfo
	var asked error
	err = raw.Control(func(fd uintptr) {
		info, asked = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if asked == nil {
			// Not tcpi_unacked: a packet that the node's own firewall drops counts as never sent.
			r.Pending, asked = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		}
	})
	if err = errors.Join(err, asked); err != nil {
		r.Error = err.Error()
		return r
	}
	r.LastAck = r.At.Add(-time.Duration(info.Last_ack_recv) * time.Millisecond)
	return r
}
