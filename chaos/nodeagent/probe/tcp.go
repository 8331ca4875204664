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

// Connect is what came of one attempt to connect. Begin and End are on the boot clock.
type Connect struct {
	Address   string       `json:"address"`
	Connected bool         `json:"connected"`
	Refused   bool         `json:"refused,omitempty"` // A reset came for an answer.
	Error     string       `json:"error,omitempty"`
	Begin     history.Time `json:"begin" clock:"from"`
	End       history.Time `json:"end" clock:"to"`
}

// TCP tries to connect to all addresses at the same time, each once and within timeout, and closes the connections.
// The answers are in the order of the addresses.
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
