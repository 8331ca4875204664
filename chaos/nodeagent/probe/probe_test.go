package probe_test

import (
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server takes connections and gives each to serve.
func server(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestTCPSaysWhatAnswers(t *testing.T) {
	open := server(t, func(c net.Conn) { _ = c.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	_ = closed.Close()
	got := probe.TCP(t.Context(), []string{address, open, "nonsense"}, time.Second)
	if len(got) != 3 || got[0].Connected || !got[0].Refused || !got[1].Connected || got[2].Connected || got[2].Refused {
		t.Fatalf("got %+v", got)
	}
	for _, c := range got {
		if c.Begin <= 0 || c.End < c.Begin || c.Connected == (c.Error != "") {
			t.Errorf("got %+v", c)
		}
	}
}

func TestFlowOpensAndEnds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		serve func(net.Conn)
		watch time.Duration
		want  []probe.FlowState
	}{
		{"lives", func(net.Conn) {}, time.Second, []probe.FlowState{probe.FlowOpen, probe.FlowOver}},
		{"is closed", func(c net.Conn) {
			_, _ = c.Read(make([]byte, 7))
			_, _ = c.Read(make([]byte, 7))
			_ = c.Close()
		}, 5 * time.Second, []probe.FlowState{probe.FlowOpen, probe.FlowClosed}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conns := make(chan net.Conn, 1) // A flow has one.
			address := server(t, func(c net.Conn) {
				conns <- c
				tc.serve(c)
			})
			var states []probe.FlowState
			var last history.Time
			err := probe.Flow(t.Context(), address, 500*time.Millisecond, tc.watch, func(r probe.FlowReport) error {
				states = append(states, r.State)
				if r.At < last || r.LastAck > r.At {
					t.Errorf("got %+v after %s", r, last)
				}
				last = r.At
				return nil
			})
			_ = (<-conns).Close()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, states); d != "" {
				t.Errorf("states (-want +got):\n%s", d)
			}
		})
	}
	if err := probe.Flow(t.Context(), "127.0.0.1:1", time.Second, time.Second, nil); err == nil {
		t.Error("a flow to nobody opens")
	}
}
