package probe_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

func addresses(texts ...string) []netip.Addr {
	out := make([]netip.Addr, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParseAddr(s)
	}
	return out
}

func TestPingCountsTheAnswers(t *testing.T) {
	fifty := probe.Volley{Count: 50, Interval: time.Millisecond, Timeout: time.Second}
	got, err := probe.Ping(t.Context(), addresses("127.0.0.1", "127.0.0.2"), fifty)
	if errors.Is(err, os.ErrPermission) {
		t.Skip("NOT RUN: echo requests on the loopback; they need CAP_NET_RAW")
	}
	if err != nil || len(got) != 2 {
		t.Fatalf("got %+v, %v", got, err)
	}
	for i, want := range []string{"127.0.0.1", "127.0.0.2"} {
		e := got[i]
		if e.Address != want || e.Sent != 50 || e.Answered != 50 || e.Error != "" || e.End <= e.Begin {
			t.Errorf("got %+v", e)
		}
		if e.Fastest <= 0 || e.Fastest > e.Median || e.Median > time.Second || e.First < e.Begin || e.Last <= e.First {
			t.Errorf("times of %+v", e)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := probe.Ping(ctx, addresses("127.0.0.1"), fifty); err == nil {
		t.Error("what was given up passes")
	}
}

func TestPingRefusesNonsense(t *testing.T) {
	for _, tc := range []probe.Volley{
		{0, 1, 1, 0}, {probe.MaxEchoes + 1, 1, 1, 0}, {1, 0, 1, 0}, {1, 1, 0, 0}, {1, 1, 1, 2}, {1, 1, 1, 17},
		{1, 1, 1, probe.MaxEchoSize + 2},
	} {
		if _, err := probe.Ping(t.Context(), addresses("127.0.0.1"), tc); err == nil {
			t.Errorf("%+v passes", tc)
		}
	}
}
