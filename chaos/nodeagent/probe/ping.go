package probe

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/linux"
)

// Echo is the outcome of the ICMP echo requests to an address. Requests dropped by the node's own firewall count as
// sent.
type Echo struct {
	Address  string       `json:"address"`
	Sent     int          `json:"sent"`
	Answered int          `json:"answered"`
	Error    string       `json:"error,omitempty"` // The last one: of a rejected request, or of sending.
	Begin    history.Time `json:"begin" clock:"from"`
	End      history.Time `json:"end" clock:"to"`
	// Fastest and Median are round trips in nanoseconds, First and Last the times of the first and the last answer. All
	// are 0 without an answer.
	Fastest time.Duration `json:"fastest"`
	Median  time.Duration `json:"median"`
	First   history.Time  `json:"first" clock:"from"`
	Last    history.Time  `json:"last" clock:"to"`
}

// MaxEchoes bounds the echo requests to an address: their numbers have 16 bits.
const MaxEchoes = 60000

// The sizes of an ICMP message of an echo request, with its header of 8 bytes. The greatest fits into one packet of any
// network that Kubernetes is run on.
const (
	MinEchoSize = 16
	MaxEchoSize = 1200
)

// Volley describes the echo requests to each address: Count requests, one every Interval, of Size bytes each. Replies
// are awaited until Timeout after the last request.
type Volley struct {
	Count             int
	Interval, Timeout time.Duration
	Size              int // Of the ICMP message; 0 is MinEchoSize.
}

// Check returns an error for a volley that cannot be sent.
func (v Volley) Check() error {
	if v.Count < 1 || v.Count > MaxEchoes || v.Interval <= 0 || v.Timeout <= 0 {
		return fmt.Errorf("use 1 to %d requests, an interval and a timeout above 0, not %d, %s and %s",
			MaxEchoes, v.Count, v.Interval, v.Timeout)
	}
	if v.Size < MinEchoSize || v.Size > MaxEchoSize || v.Size%2 != 0 {
		return fmt.Errorf("use an even size of %d to %d bytes, not %d", MinEchoSize, MaxEchoSize, v.Size)
	}
	return nil
}

// Ping sends a volley of ICMP echo requests to each address, concurrently, and counts the answers until its timeout or
// until all have come. It needs CAP_NET_RAW. The answers are in the order of the addresses.
func Ping(ctx context.Context, addresses []netip.Addr, v Volley) ([]Echo, error) {
	if v.Size == 0 {
		v.Size = MinEchoSize
	}
	if err := v.Check(); err != nil {
		return nil, fmt.Errorf("ping: %w", err)
	}
	answers := make([]Echo, len(addresses))
	failures := make([]error, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { answers[i], failures[i] = ping(ctx, address.Unmap(), v) })
	}
	all.Wait()
	return answers, errors.Join(failures...)
}

// pinger is one socket that sends echo requests and takes the answers.
type pinger struct {
	conn   net.Conn
	v4     bool
	id     uint16
	nonce  [8]byte
	size   int
	sentAt []atomic.Int64 // By number: when it was sent, on the boot clock.
	came   []history.Time // By number: when its answer came; 0 is never.
	sent   int
	number int
	last   error
}

func ping(ctx context.Context, address netip.Addr, v Volley) (Echo, error) {
	e := Echo{Address: address.String(), Begin: bootclock.Now()}
	p, err := newPinger(ctx, address, v)
	if err != nil {
		return e, fmt.Errorf("ping %s: %w", address, err)
	}
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		p.listen(ctx)
	}()
	err = errors.Join(p.volley(ctx, v), p.conn.SetReadDeadline(time.Now().Add(v.Timeout)))
	if ctx.Err() != nil || err != nil {
		err = errors.Join(err, p.conn.Close())
		<-listened
		return e, fmt.Errorf("ping %s: %w", address, err)
	}
	<-listened
	e.End, e.Sent = bootclock.Now(), p.sent
	p.measure(&e)
	if p.last != nil {
		e.Error = p.last.Error()
	}
	if err = errors.Join(err, p.conn.Close()); err != nil {
		return e, fmt.Errorf("ping %s: %w", address, err)
	}
	return e, nil
}

// volley sends each request when it is due: a late one does not delay the others.
func (p *pinger) volley(ctx context.Context, v Volley) error {
	begin := time.Now()
	ticks := time.NewTicker(max(v.Interval, time.Millisecond))
	defer ticks.Stop()
	for p.sent < v.Count {
		for due := int(time.Since(begin)/v.Interval) + 1; p.sent < min(due, v.Count); {
			p.send()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks.C:
		}
	}
	return nil
}

// measure fills in the number and times of the answers.
func (p *pinger) measure(e *Echo) {
	var took []time.Duration
	for i, at := range p.came {
		if at == 0 {
			continue
		}
		if e.First == 0 || at < e.First {
			e.First = at
		}
		e.Last = max(e.Last, at)
		took = append(took, at.Sub(history.Time(p.sentAt[i].Load())))
	}
	if e.Answered = len(took); len(took) > 0 {
		slices.Sort(took)
		e.Fastest, e.Median = took[0], took[len(took)/2]
	}
}

func newPinger(ctx context.Context, address netip.Addr, v Volley) (*pinger, error) {
	p := &pinger{
		v4: address.Is4(), size: v.Size, sentAt: make([]atomic.Int64, v.Count), came: make([]history.Time, v.Count),
	}
	network := "ip6:ipv6-icmp"
	if p.v4 {
		network = "ip4:icmp"
	}
	// The kernel drops packets of other senders to a connected socket.
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address.String())
	if err != nil {
		return nil, err
	}
	p.conn = conn
	// The buffer holds every reply of a flood while a busy machine does not read them.
	raw, err := conn.(*net.IPConn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			_ = linux.ForceReceiveBuffer(int(fd), 4<<20)
		})
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	var id [2]byte
	_, _ = rand.Read(id[:]) // Read never returns an error, here and below.
	_, _ = rand.Read(p.nonce[:])
	p.id = binary.BigEndian.Uint16(id[:])
	return p, nil
}

// send sends the next request. The kernel reports an ICMP error of an earlier request instead of sending, so it
// retries.
func (p *pinger) send() {
	kind := byte(128) // RFC 4443, echo request.
	if p.v4 {
		kind = 8 // RFC 792.
	}
	packet := make([]byte, p.size)
	packet[0] = kind
	binary.BigEndian.PutUint16(packet[4:], p.id)
	binary.BigEndian.PutUint16(packet[6:], uint16(p.number))
	copy(packet[8:], p.nonce[:])
	if p.v4 { // For IPv6 the kernel does it (RFC 3542, section 3.1).
		binary.BigEndian.PutUint16(packet[2:], checksum(packet))
	}
	p.sentAt[p.number].Store(int64(bootclock.Now()))
	p.number++
	p.sent++
	for range 3 {
		_, err := p.conn.Write(packet)
		if err == nil || errors.Is(err, unix.EPERM) { // EPERM: a rule of this node dropped it.
			return
		}
		p.last = err
	}
}

// listen receives answers until all have come or the read deadline has passed.
func (p *pinger) listen(ctx context.Context) {
	buf := make([]byte, 1500)
	for missing := len(p.came); missing > 0 && ctx.Err() == nil; {
		n, err := p.conn.Read(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			return
		case err != nil: // A request was rejected.
			continue
		}
		if number, ok := p.answer(buf[:n]); ok && number < len(p.came) && p.came[number] == 0 {
			p.came[number] = bootclock.Now()
			missing--
		}
	}
}

// answer returns the number of the request that a packet answers.
func (p *pinger) answer(packet []byte) (int, bool) {
	kind := byte(129)
	if p.v4 { // The kernel leaves the header of IPv4 on, and takes that of IPv6 off.
		if len(packet) < 1 || len(packet) < int(packet[0]&0xf)*4 {
			return 0, false
		}
		packet, kind = packet[int(packet[0]&0xf)*4:], 0
	}
	if len(packet) < 16 || packet[0] != kind || binary.BigEndian.Uint16(packet[4:]) != p.id ||
		[8]byte(packet[8:16]) != p.nonce {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(packet[6:])), true
}

// checksum is the Internet checksum (RFC 1071) of a packet of even length whose own checksum is 0.
func checksum(packet []byte) uint16 {
	sum := uint32(0)
	for i := 0; i+1 < len(packet); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(packet[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
