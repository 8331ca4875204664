package kind

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/seatrial/seatrial/clusters/linux"
)

const (
	// socatLinger is how many seconds socat goes on after one direction has ended. It cannot tell which, so this is
	// both the time the far end has to answer a closed write side, and the delay with which its own end is seen.
	socatLinger = "1"
	// connectBound is the longest a connection may take where the context sets no bound.
	connectBound = 30 * time.Second
	// closeBound is how long socat may take to pass on what was written before Close; then it is killed.
	closeBound = 3 * time.Second
)

// stream is a connection that can close one direction. It hides that a *net.UnixConn is a net.PacketConn too, which
// makes net.Resolver take it for UDP.
type stream interface {
	net.Conn
	CloseWrite() error
}

// socatConn is a connection through a socat that runs in the node, by way of the engine's exec: one end of a pair of
// sockets, of which the engine's client has the other as standard input and output. It ends when it is closed, also
// when the harness dies.
type socatConn struct {
	stream
	remote  netip.AddrPort
	cmd     *exec.Cmd
	ended   chan struct{} // Closed when it was reaped and all it said was read. Then waitErr and said may be read.
	waitErr error
	said    string // The last line of its standard error.
	close   sync.Once
}

// dialSocat starts socat in the node and waits until it says that it is connected.
func (n *node) dialSocat(ctx context.Context, target netip.AddrPort) (*socatConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectBound)
	defer cancel()
	network := "TCP6"
	if target.Addr().Unmap().Is4() {
		network = "TCP4"
	}
	// The notices of level 2 tell that the connection stands. Nothing in an address and a port needs quoting.
	args := []string{
		"exec", "--interactive", "--env", execMark + "=" + rand.Text(), n.name, "socat", "-d", "-d", "-t", socatLinger,
		"STDIO", fmt.Sprintf("%s:%s,connect-timeout=%d", network, target, int(connectBound.Seconds())),
	}
	c, connected, err := startPaired(n.engine.command(context.WithoutCancel(ctx), args...))
	if err != nil {
		return nil, err
	}
	c.remote = target
	select {
	case <-connected:
		return c, nil
	case <-c.ended:
		select {
		case <-connected: // It connected, and the far end closed at once.
			return c, nil
		default:
			if c.waitErr == nil {
				c.waitErr = errors.New("code 0")
			}
			err := fmt.Errorf("socat in the node ended with %w: %s", c.waitErr, c.said)
			return nil, errors.Join(err, c.Close())
		}
	case <-ctx.Done():
		_ = killGroup(c.cmd) // It fails when socat has just ended by itself.
		return nil, errors.Join(fmt.Errorf("not connected: %w", ctx.Err()), c.Close())
	}
}

// startPaired starts the command with one of a pair of sockets as standard input and output. The channel is closed when
// it says that it is connected.
func startPaired(cmd *exec.Cmd) (*socatConn, <-chan struct{}, error) {
	ends, err := linux.Socketpair()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "socat"), os.NewFile(uintptr(ends[1]), "socat")
	conn, err := net.FileConn(ours) // It has a copy.
	err = errors.Join(err, ours.Close())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make a pair of sockets: %w", err), theirs.Close())
	}
	cmd.Stdin, cmd.Stdout = theirs, theirs
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err = errors.Join(err, theirs.Close()); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	c := &socatConn{stream: conn.(*net.UnixConn), cmd: cmd, ended: make(chan struct{})}
	connected := make(chan struct{})
	go func() {
		defer close(c.ended)
		c.listen(said, connected)
		c.waitErr = cmd.Wait()
	}()
	return c, connected, nil
}

// listen reads what socat says until its end. The error lines count; of those only the last is kept.
func (c *socatConn) listen(stderr io.Reader, connected chan<- struct{}) {
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		line := lines.Text()
		if strings.Contains(line, "starting data transfer loop") && connected != nil {
			close(connected)
			connected = nil
		}
		if !strings.Contains(line, " N ") || c.said == "" {
			c.said = line
		}
	}
	_, _ = io.Copy(io.Discard, stderr) // A line too long for the scanner must not block the writer.
}

// Read reads from the far end. Its end is io.EOF when it closed in an orderly way, and otherwise an error that wraps
// syscall.ECONNRESET.
func (c *socatConn) Read(p []byte) (int, error) {
	n, err := c.stream.Read(p)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		err = io.EOF
		select { // The socket ends with the process.
		case <-c.ended:
			if c.waitErr != nil {
				err = &net.OpError{Op: "read", Net: "tcp", Addr: c.RemoteAddr(),
					Err: fmt.Errorf("%w: %s", syscall.ECONNRESET, c.said)}
			}
		case <-time.After(closeBound):
		}
	}
	return n, err
}

// Close ends both directions, lets socat pass on what was written, and waits until it is reaped. It takes closeBound
// at most; then socat is killed.
func (c *socatConn) Close() error {
	c.close.Do(func() {
		_ = c.stream.Close() // What was written stays in the other end.
		select {
		case <-c.ended:
		case <-time.After(closeBound):
			_ = killGroup(c.cmd) // It fails when socat has just ended by itself.
			<-c.ended
		}
	})
	return nil
}

// LocalAddr is the zero address: the engine does not tell it.
func (c *socatConn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr is the address that was dialled.
func (c *socatConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }
