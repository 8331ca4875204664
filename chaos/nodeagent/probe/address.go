package probe

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// Connect is the outcome of an attempt to connect.
type Connect struct {
	Address   string       `json:"address"`
	Connected bool         `json:"connected"`
	Refused   bool         `json:"refused,omitempty"` // Answered by a reset.
	Error     string       `json:"error,omitempty"`
	Begin     history.Time `json:"begin" clock:"from"`
	End       history.Time `json:"end" clock:"to"`
}

// TCP connects to all addresses concurrently, each once and within timeout, and closes the connections. The answers are
// in the order of the addresses.
func TCP(ctx context.Context, addresses []string, timeout time.Duration) []Connect {
	answers := make([]Connect, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { answers[i] = connect(ctx, address, timeout) })
	}
	all.Wait()
	return answers
}

func connect(ctx context.Context, address string, timeout time.Duration) Connect {
	c := Connect{Address: address, Begin: bootclock.Now()}
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", address)
	c.End = bootclock.Now()
	if err != nil {
		c.Error = err.Error()
		c.Refused = errors.Is(err, unix.ECONNREFUSED)
		return c
	}
	c.Connected = true
	_ = conn.Close() // Nothing was sent, so nothing can be lost.
	return c
}

// Answer is the outcome of asking a DNS server for a name.
type Answer struct {
	Address  string       `json:"address"`
	Network  string       `json:"network"` // "udp" or "tcp".
	Answered bool         `json:"answered"`
	Error    string       `json:"error,omitempty"`
	Begin    history.Time `json:"begin" clock:"from"`
	End      history.Time `json:"end" clock:"to"`
}

// DNS asks all servers for a name over UDP and TCP, concurrently and within timeout. An error such as NXDOMAIN is an
// answer too. The answers are in the order of the addresses, UDP first.
func DNS(ctx context.Context, name string, addresses []string, timeout time.Duration) []Answer {
	var answers []Answer
	for _, a := range addresses {
		answers = append(answers, Answer{Address: a, Network: "udp"}, Answer{Address: a, Network: "tcp"})
	}
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i].ask(ctx, name, timeout) })
	}
	all.Wait()
	return answers
}

// refusal is what package net says of an answer that is an error other than NXDOMAIN, such as REFUSED.
const refusal = "server misbehaving"

// ask looks the name up with a resolver that uses this server only.
func (l *Answer) ask(ctx context.Context, name string, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resolver := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, l.Network, l.Address)
		if err == nil { // The resolver's own timeout is longer.
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}}
	l.Begin = bootclock.Now()
	_, err := resolver.LookupNetIP(ctx, "ip4", name)
	l.End = bootclock.Now()
	var failure *net.DNSError
	l.Answered = err == nil || errors.As(err, &failure) && (failure.IsNotFound || failure.Err == refusal)
	if !l.Answered {
		l.Error = err.Error()
	}
}
