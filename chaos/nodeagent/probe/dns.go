package probe

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// Answer is what came of asking one DNS server for a name. Begin and End are on the boot clock.
type Answer struct {
	Address  string       `json:"address"`
	Network  string       `json:"network"` // "udp" or "tcp".
	Answered bool         `json:"answered"`
	Error    string       `json:"error,omitempty"`
	Begin    history.Time `json:"begin" clock:"from"`
	End      history.Time `json:"end" clock:"to"`
}

// DNS asks all servers for a name, over UDP and over TCP, at the same time and within timeout. That there is no such
// name is an answer, too. The answers are in the order of the addresses, UDP first.
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

// ask looks the name up by a resolver that knows this server alone.
func (l *Answer) ask(ctx context.Context, name string, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resolver := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, l.Network, l.Address)
		if err == nil { // The resolver has a timeout of its own, which is longer.
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}}
	l.Begin = bootclock.Now()
	_, err := resolver.LookupNetIP(ctx, "ip4", name)
	l.End = bootclock.Now()
	var failure *net.DNSError
	l.Answered = err == nil || errors.As(err, &failure) && failure.IsNotFound
	if !l.Answered {
		l.Error = err.Error()
	}
}
