package kind

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// serve listens on this machine, which is the fake engine's node, and handles each connection in a goroutine.
func serve(t *testing.T, handle func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go handle(conn.(*net.TCPConn))
		}
	}()
	return l.Addr().String()
}

// echoLate answers once the far end has closed its write side.
func echoLate(conn *net.TCPConn) {
	defer func() { _ = conn.Close() }()
	text, _ := io.ReadAll(conn)
	_, _ = conn.Write([]byte(strings.ToUpper(string(text))))
}

// dialers are the two ways Dial has; both must behave alike.
func dialers(t *testing.T) map[string]dialer {
	e := fakeEngine(t, made("n", "c", "worker", "", "running"))
	n := aNode(e, "n")
	here, err := startTime(os.Getpid())
	must(t, err)
	inNetns := aNode(e, "n")
	inNetns.netns.pid, inNetns.netns.start = os.Getpid(), here
	out := map[string]dialer{
		"socat": func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := n.dialSocat(ctx, netip.MustParseAddrPort(address))
			if err != nil {
				return nil, err
			}
			return conn, nil
		},
		"netns": func(ctx context.Context, address string) (net.Conn, error) {
			return inNetns.Dial(ctx, address)
		},
	}
	if os.Getuid() != 0 {
		delete(out, "netns")
		t.Log("NOT RUN: connections in a network namespace: only root can make them")
	}
	return out
}

// dialer is one way of dialling.
type dialer func(ctx context.Context, address string) (net.Conn, error)

func TestDial(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for name, dial := range dialers(t) {
		t.Run(name+" half close", func(t *testing.T) { halfClose(t, dial) })
		t.Run(name+" refused", func(t *testing.T) { refusedDial(t, dial) })
		t.Run(name+" read deadline", func(t *testing.T) { readDeadline(t, dial) })
		t.Run(name+" write deadline", func(t *testing.T) { writeDeadline(t, dial) })
		t.Run(name+" reset", func(t *testing.T) { resetConn(t, dial) })
		t.Run(name+" closed", func(t *testing.T) { closedConn(t, dial) })
	}
}

func halfClose(t *testing.T, dial dialer) {
	conn, err := dial(t.Context(), serve(t, echoLate))
	must(t, err)
	if _, packets := conn.(net.PacketConn); packets {
		t.Error("the connection says that it is one of packets: net.Resolver would speak DNS over UDP on it")
	}
	_, err = conn.Write([]byte("ahoy"))
	must(t, err)
	must(t, conn.(interface{ CloseWrite() error }).CloseWrite())
	if got, err := io.ReadAll(conn); err != nil || string(got) != "AHOY" {
		t.Errorf("answer = %q, %v", got, err)
	}
	must(t, conn.Close())
}

func refusedDial(t *testing.T, dial dialer) {
	conn, err := dial(t.Context(), "127.0.0.1:1")
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "connection refused") {
		t.Errorf("dial = %v, %v, want refused", conn, err)
	}
}

func readDeadline(t *testing.T, dial dialer) {
	hold := make(chan struct{})
	conn, err := dial(t.Context(), serve(t, func(c *net.TCPConn) { <-hold; _ = c.Close() }))
	must(t, err)
	must(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	var netErr net.Error
	if !errors.As(err, &netErr) || !netErr.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read = %v, want a timeout", err)
	}
	close(hold)
	must(t, conn.SetDeadline(time.Time{}))
	if _, err = conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read = %v, want the end", err)
	}
	must(t, conn.Close())
}

func writeDeadline(t *testing.T, dial dialer) {
	hold := make(chan struct{})
	conn, err := dial(t.Context(), serve(t, func(c *net.TCPConn) { <-hold; _ = c.Close() }))
	must(t, err)
	must(t, conn.SetWriteDeadline(time.Now().Add(200*time.Millisecond)))
	var netErr net.Error
	for err == nil {
		_, err = conn.Write(make([]byte, 1<<20))
	}
	if !errors.As(err, &netErr) || !netErr.Timeout() {
		t.Errorf("write = %v, want a timeout", err)
	}
	close(hold)
	must(t, conn.Close())
}

func resetConn(t *testing.T, dial dialer) {
	conn, err := dial(t.Context(), serve(t, func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.SetLinger(0)
		_ = c.Close()
	}))
	must(t, err)
	_, err = conn.Write([]byte("xy"))
	must(t, err)
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read = %v, want a reset", err)
	}
	must(t, conn.Close())
}

func closedConn(t *testing.T, dial dialer) {
	conn, err := dial(t.Context(), serve(t, echoLate))
	must(t, err)
	must(t, conn.Close())
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read = %v, want closed", err)
	}
	if _, err := conn.Write(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write = %v, want closed", err)
	}
}

func TestDialSocatBoundedByContext(t *testing.T) {
	defer goleak.VerifyNone(t)
	n := aNode(fakeEngine(t, made("n", "c", "worker", "", "running")), "n")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := n.dialSocat(ctx, netip.MustParseAddrPort("192.0.2.1:9"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial = %v, want the context's error", err)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("giving up took %s", took)
	}
}

func TestDialBadAddress(t *testing.T) {
	n := aNode(fakeEngine(t), "n")
	for _, tc := range []struct{ address, want string }{
		{"localhost:80", "want an IP address and a port"},
		{"10.0.0.1", "want an IP address and a port"},
		{"10.0.0.1:80", "no such container"},
	} {
		_, err := n.Dial(t.Context(), tc.address)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("dial %s: %v, want %q", tc.address, err, tc.want)
		}
	}
}

func TestDialFallsBackToSocat(t *testing.T) {
	c := made("n", "c", "worker", "", "running")
	c.State.Pid = os.Getpid() // A process here, but not the container's.
	n := aNode(fakeEngine(t, c), "n")
	conn, err := n.Dial(t.Context(), serve(t, echoLate))
	must(t, err)
	if _, ok := conn.(*socatConn); !ok {
		t.Errorf("the connection is a %T", conn)
	}
	must(t, conn.Close())
}
