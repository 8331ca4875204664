package link

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/clusters/bootclock"
)

// agent is served on this machine, which is the node, with mutual TLS. A fault is under way: any command may run.
func agent(t *testing.T) (address string, authority *Authority) {
	t.Helper()
	l := Limits{Node: "n1", Faults: []string{"any"}, Longest: time.Hour, Total: time.Hour}
	address, authority = agentWith(t, NewBounds(t.TempDir(), l))
	must(t, Begin(t.Context(), harness(t, address, authority), "test", "any", time.Hour))
	return address, authority
}

func agentWith(t *testing.T, b *Bounds) (address string, authority *Authority) {
	t.Helper()
	authority, err := NewAuthority(time.Now())
	must(t, err)
	identity, err := authority.Node(Limits{Node: "n1"})
	must(t, err)
	config, err := identity.Server()
	must(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	must(t, err)
	served := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { served <- Serve(ctx, listener, b) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-served)
	})
	return listener.Addr().String(), authority
}

// dial connects as somebody to the agent that is to be called by a name.
func dial(t *testing.T, address, name string, who Identity) net.Conn {
	t.Helper()
	config, err := who.Client(name)
	must(t, err)
	conn, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return tls.Client(conn, config)
}

func harness(t *testing.T, address string, a *Authority) net.Conn {
	t.Helper()
	who, err := a.Harness()
	must(t, err)
	return dial(t, address, "n1", who)
}

func TestExec(t *testing.T) {
	address, authority := agent(t)
	big := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB.
	for _, c := range []struct {
		name           string
		argv           []string
		stdin          string
		stdout, stderr string
		code           int
		err            string
	}{
		{name: "argv as it is", argv: []string{"echo", "a  $b", "*"}, stdout: "a  $b *\n"},
		{name: "exit code", argv: []string{"sh", "-c", "echo why >&2; exit 3"}, stderr: "why\n", code: 3},
		{name: "a code that engines use", argv: []string{"sh", "-c", "exit 127"}, code: 127},
		{name: "killed", argv: []string{"sh", "-c", "kill -9 $$"}, code: 137},
		{name: "not there", argv: []string{"/no/such"}, err: "no such file"},
		{name: "not found", argv: []string{"no-such-program"}, err: "not found"},
		{name: "empty argv", err: "argv is empty"},
		{name: "stdin", argv: []string{"cat"}, stdin: "in", stdout: "in"},
		{name: "much both ways", argv: []string{"cat"}, stdin: big, stdout: big},
		{name: "much that is not read", argv: []string{"true"}, stdin: big},
		{name: "no environment of the agent's", argv: []string{"sh", "-c", "echo $HOME"}, stdout: "/root\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, said bytes.Buffer
			streams := Streams{Stdout: &out, Stderr: &said}
			if c.stdin != "" {
				streams.Stdin = strings.NewReader(c.stdin)
			}
			code, err := Exec(t.Context(), harness(t, address, authority), c.argv, streams)
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if code != c.code || out.String() != c.stdout || said.String() != c.stderr {
				t.Errorf("code %d, %d bytes of stdout, stderr %q; want %d, %d, %q", code, out.Len(), said.String(),
					c.code, len(c.stdout), c.stderr)
			}
		})
	}
}

func TestReaderThatFails(t *testing.T) {
	address, authority := agent(t)
	broken := io.MultiReader(strings.NewReader("in"), iotestErr{})
	_, err := Exec(t.Context(), harness(t, address, authority), []string{"cat"},
		Streams{Stdin: broken, Stdout: io.Discard, Stderr: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("error %v, want the reader's", err)
	}
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, errors.New("disk on fire") }

// A command is gone, with what it put into another session, when its caller's context ended and when its caller went.
func TestCommandsEndWithTheirCaller(t *testing.T) {
	address, authority := agent(t)
	argv := []string{"sh", "-c", "setsid sleep 4711 & echo up; sleep 4711"}
	left := func() string {
		out, _ := exec.Command("pgrep", "-f", "sleep 4711").Output()
		return string(out)
	}
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Exec(ctx, harness(t, address, authority), argv,
			Streams{Stdout: onWrite(cancel), Stderr: io.Discard})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the context's", err)
		}
		if pids := left(); pids != "" {
			t.Errorf("left: %s", pids)
		}
	})
	t.Run("connection", func(t *testing.T) {
		conn := harness(t, address, authority)
		// Standard input that is never taken must not hide that the caller has gone.
		_, err := Exec(t.Context(), conn, argv, Streams{
			Stdin: neverEnding{}, Stdout: onWrite(func() { _ = conn.Close() }), Stderr: io.Discard,
		})
		if err == nil {
			t.Error("a lost connection is no error")
		}
		for end := time.Now().Add(killBound); left() != ""; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("left: %s", left())
			}
		}
	})
}

type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }

func TestDial(t *testing.T) {
	address, authority := agent(t)
	far, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = far.Close() }()
	go func() { // It answers when its caller has ended the sending half.
		conn, err := far.Accept()
		if err != nil {
			return
		}
		text, _ := io.ReadAll(conn)
		_, _ = conn.Write(bytes.ToUpper(text))
		_ = conn.Close()
	}()
	conn := harness(t, address, authority)
	must(t, Dial(t.Context(), conn, far.Addr().String()))
	_, err = conn.Write([]byte("hello"))
	must(t, err)
	must(t, conn.(*tls.Conn).CloseWrite())
	if text, err := io.ReadAll(conn); err != nil || string(text) != "HELLO" {
		t.Errorf("read %q, %v", text, err)
	}
	must(t, far.Close())
	err = Dial(t.Context(), harness(t, address, authority), far.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("dial a closed port = %v", err)
	}
}

// The node's clock is ahead by a known time, and the margin covers what is off.
func TestClock(t *testing.T) {
	address, authority := agent(t)
	const ahead = 5 * time.Hour
	started := time.Now()
	conn := harness(t, address, authority)
	must(t, Hello(t.Context(), conn))
	offset, margin, err := Clock(t.Context(), conn, func() int64 {
		return int64(bootclock.Now()) - int64(ahead)
	})
	must(t, err)
	if off := offset + ahead; off < -margin || off > margin || margin <= 0 || margin > time.Since(started) {
		t.Errorf("offset %s with margin %s, want -%s", offset, margin, ahead)
	}
}

// Only the harness of the session is obeyed, and only an agent of the session is spoken to.
func TestStrangersAreRefused(t *testing.T) {
	address, authority := agent(t)
	other, err := NewAuthority(time.Now())
	must(t, err)
	stranger, err := other.Harness()
	must(t, err)
	stranger.CA = must1(t)(authority.Harness()).CA // It trusts the agent; the agent must not trust it.
	node := must1(t)(authority.Node(Limits{Node: "n2"}))
	harness := must1(t)(authority.Harness())
	for _, c := range []struct {
		name, called string
		who          Identity
		ok           bool
	}{
		{"harness", "n1", harness, true},
		{"harness of another session", "n1", stranger, false},
		{"another agent", "n1", node, false},
		{"agent of another node", "n2", harness, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := Hello(t.Context(), dial(t, address, c.called, c.who)); (err == nil) != c.ok {
				t.Errorf("hello = %v, want it to succeed: %t", err, c.ok)
			}
		})
	}
	t.Run("nobody", func(t *testing.T) {
		conn, err := net.Dial("tcp", address)
		must(t, err)
		defer func() { _ = conn.Close() }()
		_, err = Exec(t.Context(), conn, []string{"true"}, Streams{Stdout: io.Discard, Stderr: io.Discard})
		if err == nil {
			t.Error("a command without TLS was carried out")
		}
	})
}

func TestSilentAgentIsNotWaitedFor(t *testing.T) {
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Hello(ctx, near); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hello = %v, want the context's error", err)
	}
}

// A command is not begun for a caller that has gone, though the agent takes no request.
func TestEndedContextRunsNothing(t *testing.T) {
	near, far := net.Pipe() // Nobody reads from it.
	defer func() { _ = far.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Exec(ctx, near, []string{"true"}, Streams{Stdout: io.Discard, Stderr: io.Discard})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("exec = %v, want the context's error", err)
	}
}

func TestSessions(t *testing.T) {
	for text, want := range map[string]bool{
		"abc123": true, "": false, "../x": false, "a b": false, "A": false, strings.Repeat("a", 21): false,
	} {
		if IsSession(text) != want {
			t.Errorf("IsSession(%q) = %t", text, !want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must1(t *testing.T) func(Identity, error) Identity {
	return func(i Identity, err error) Identity {
		t.Helper()
		must(t, err)
		return i
	}
}
