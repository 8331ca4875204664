package kind

import (
	"bufio"
	"context"
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

// socatConn is a connection through a socat that runs in the node, by way of the engine's exec. Our ends of its pipes
// have deadlines. It ends when they are closed, also when the harness dies.
type socatConn struct {
	in, out *os.File // Its standard input and output.
	remote  netip.AddrPort
	cmd     *exec.Cmd
	ended   chan struct{} // Closed when it was reaped and all it said was read. Then waitErr and said may be read.
	waitErr error
	said    string // The last line of its standard error.
	close   sync.Once
}

// dialSocat starts socat in the node and waits until it says that it is connected.
func (n *node) dialSocat(ctx context.Context, network string, target netip.AddrPort) (*socatConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectBound)
	defer cancel()
	// The notices of level 2 tell that the connection stands. Nothing in an address and a port needs quoting.
	args := []string{
		"exec", "--interactive", "--env", execMark + "=" + n.marks(), n.name, "socat", "-d", "-d", "-t", socatLinger,
		"STDIO", fmt.Sprintf("%s:%s,connect-timeout=%d", strings.ToUpper(network), target, int(connectBound.Seconds())),
	}
	c, connected, err := startPiped(n.engine.command(context.WithoutCancel(ctx), args...))
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
			err := fmt.Errorf("socat in the node ended with %w: %s", orEnded(c.waitErr), c.said)
			return nil, errors.Join(err, c.Close())
		}
	case <-ctx.Done():
		_ = killGroup(c.cmd) // It fails when socat has just ended by itself.
		return nil, errors.Join(fmt.Errorf("not connected: %w", ctx.Err()), c.Close())
	}
}

func orEnded(err error) error {
	if err == nil {
		return errors.New("code 0")
	}
	return err
}

// startPiped starts the command with pipes for all of its streams. The channel is closed when it says that it is
// connected.
func startPiped(cmd *exec.Cmd) (*socatConn, <-chan struct{}, error) {
	var ours, theirs []*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			_ = f.Close() // A pipe has no error on closing.
		}
	}
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(ours, theirs...))
			return nil, nil, fmt.Errorf("make pipe: %w", err)
		}
		if i == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	// Files, not readers and writers: then nothing copies, and Wait waits for nothing but the process.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	err := cmd.Start()
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return nil, nil, err
	}
	c := &socatConn{in: ours[0], out: ours[1], cmd: cmd, ended: make(chan struct{})}
	connected, heard := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(heard)
		defer func() { closeAll(ours[2:]) }()
		c.listen(ours[2], connected)
	}()
	go func() {
		defer close(c.ended)
		c.waitErr = cmd.Wait()
		<-heard
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
	n, err := c.out.Read(p)
	if errors.Is(err, io.EOF) {
		select { // The pipe ends with the process.
		case <-c.ended:
			if c.waitErr != nil {
				return n, c.opError("read", fmt.Errorf("%w: %s", syscall.ECONNRESET, c.said))
			}
		case <-time.After(closeBound):
		}
		return n, io.EOF
	}
	return n, c.opError("read", err)
}

// Write writes to the far end.
func (c *socatConn) Write(p []byte) (int, error) {
	n, err := c.in.Write(p)
	return n, c.opError("write", err)
}

// CloseWrite ends the direction to the far end.
func (c *socatConn) CloseWrite() error { return c.opError("close", c.in.Close()) }

// Close ends both directions, lets socat pass on what was written, and waits until it is reaped. It takes closeBound
// at most; then socat is killed.
func (c *socatConn) Close() error {
	c.close.Do(func() {
		_ = c.in.Close()  // CloseWrite may have done it, and else a pipe has no error on closing.
		_ = c.out.Close() // As above.
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

// SetDeadline sets both deadlines.
func (c *socatConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline bounds Read.
func (c *socatConn) SetReadDeadline(t time.Time) error {
	return c.opError("set", c.out.SetReadDeadline(t))
}

// SetWriteDeadline bounds Write.
func (c *socatConn) SetWriteDeadline(t time.Time) error {
	return c.opError("set", c.in.SetWriteDeadline(t))
}

// opError makes of a pipe's error what a socket would return.
func (c *socatConn) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	if errors.Is(err, os.ErrClosed) {
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: "tcp", Addr: c.RemoteAddr(), Err: err}
}
