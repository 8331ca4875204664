package link

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/seatrial/seatrial/clusters/bootclock"
)

const (
	// markName is the environment variable that marks the processes of a command.
	markName = "SEATRIAL_EXEC"
	// path is the PATH of commands.
	path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// helloBound is how long a new connection may take until its first request; dialBound bounds a dial.
	helloBound = 30 * time.Second
	dialBound  = 10 * time.Second
	// pipeBound is how long processes left by a command may keep its output open.
	pipeBound = 5 * time.Second
)

// Serve serves the listener's connections, within bounds, until ctx ends.
func Serve(ctx context.Context, listener net.Listener, b *Bounds) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // Ends Accept.
	defer stop()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		_ = conn.SetDeadline(time.Now().Add(helloBound)) // A failure shows in the read.
		go ServeOne(ctx, conn, b)
	}
}

// ServeOne serves one connection, within bounds, and closes it.
func ServeOne(ctx context.Context, conn io.ReadWriteCloser, b *Bounds) {
	defer func() { _ = conn.Close() }() // The other end has its answer.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &frames{to: conn}
	for {
		kind, data, err := readFrame(conn)
		if err != nil || kind != kindRequest {
			return
		}
		if bounded, ok := conn.(net.Conn); ok {
			_ = bounded.SetDeadline(time.Time{}) // As in Serve.
		}
		var r request
		if err := json.Unmarshal(data, &r); err != nil {
			return
		}
		switch r.Op {
		case opClock: // Another operation may follow on the connection.
			if out.writeJSON(kindDone, answer{Boot: int64(bootclock.Now())}) != nil {
				return
			}
		case opBegin:
			_ = out.writeJSON(kindDone, failed(b.begin(r.Owner, r.Fault, r.Life))) // As below.
			return
		case opEnd:
			_ = out.writeJSON(kindDone, failed(b.end(r.Owner))) // As below.
			return
		case opExec:
			if err := b.allow(r.Argv); err != nil {
				_ = out.writeJSON(kindDone, failed(err)) // As below.
				return
			}
			_ = out.writeJSON(kindDone, runCommand(ctx, conn, out, r)) // A caller that has gone needs no answer.
			return
		case opDial:
			relay(ctx, conn, out, r)
			return
		default:
			_ = out.writeJSON(kindDone, answer{Error: fmt.Sprintf("unknown operation %q", r.Op)}) // As above.
			return
		}
	}
}

// stream writes frames of one kind.
type stream struct {
	out  *frames
	kind byte
}

func (s stream) Write(p []byte) (int, error) {
	for piece := range slices.Chunk(p, chunk) {
		if err := s.out.write(s.kind, piece); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// runCommand runs a command to its end, or kills it if the caller asks for that or goes away.
func runCommand(ctx context.Context, conn io.Reader, out *frames, r request) answer {
	if len(r.Argv) == 0 {
		return answer{Error: "the argv is empty"}
	}
	program, err := find(r.Argv[0])
	if err != nil {
		return answer{Error: err.Error()}
	}
	mark := markName + "=" + rand.Text()
	cmd := exec.Cmd{
		Path: program, Args: r.Argv, Dir: "/", Env: []string{"PATH=" + path, "HOME=/root", mark},
		Stdout: stream{out, kindStdout}, Stderr: stream{out, kindStderr}, WaitDelay: pipeBound,
	}
	var stdin io.WriteCloser
	if r.Stdin {
		if stdin, err = cmd.StdinPipe(); err != nil {
			return answer{Error: err.Error()}
		}
	}
	if err := cmd.Start(); err != nil {
		return answer{Error: err.Error()}
	}
	killed, cancel := context.WithCancel(ctx)
	defer cancel()
	swept := make(chan struct{})
	stop := context.AfterFunc(killed, func() {
		defer close(swept)
		sweep(mark)
	})
	go func() {
		control(conn, out, stdin)
		cancel()
	}()
	err = cmd.Wait()
	if !stop() {
		<-swept
	}
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return answer{}
	case !errors.As(err, &exit):
		return answer{Error: err.Error()}
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return answer{Code: 128 + int(status.Signal())}
	}
	return answer{Code: exit.ExitCode()}
}

// find looks a program up in path, whatever the agent's own PATH is.
func find(name string) (string, error) {
	if filepath.Base(name) != name {
		return name, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%q: %w", name, exec.ErrNotFound)
}

// control passes standard input to the command. It returns if the caller wants the command killed or has gone.
func control(conn io.Reader, out *frames, stdin io.WriteCloser) {
	pieces := make(chan []byte, 1) // The caller sends the next one when this one is taken.
	defer func() {
		if pieces != nil {
			close(pieces)
		}
	}()
	go func(pieces <-chan []byte) {
		for data := range pieces {
			_, _ = stdin.Write(data)      // A command need not read what it is given.
			_ = out.write(kindTaken, nil) // A caller that has gone is seen below.
		}
		if stdin != nil {
			_ = stdin.Close() // As above.
		}
	}(pieces)
	for {
		kind, data, err := readFrame(conn)
		switch {
		case err != nil:
			return
		case kind == kindStdin && stdin != nil && pieces != nil:
			pieces <- data
		case kind == kindStdinEnd && pieces != nil:
			close(pieces)
			pieces = nil
		default:
			return
		}
	}
}

// sweep kills the processes with the mark in their environment until none is left: some may fork meanwhile.
func sweep(mark string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(killBound); time.Now().Before(end); <-tick.C {
		found := false
		list, _ := filepath.Glob("/proc/[0-9]*/environ") // The pattern is a good one.
		for _, file := range list {
			data, err := os.ReadFile(file)
			if err != nil || !slices.ContainsFunc(bytes.Split(data, []byte{0}), func(v []byte) bool {
				return string(v) == mark
			}) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				found = true
				_ = syscall.Kill(pid, syscall.SIGKILL) // The next look tells.
			}
		}
		if !found {
			return
		}
	}
}

// relay connects to an address and passes bytes both ways until both have ended.
func relay(ctx context.Context, conn io.ReadWriteCloser, out *frames, r request) {
	dialCtx, cancel := context.WithTimeout(ctx, dialBound)
	defer cancel()
	far, err := (&net.Dialer{}).DialContext(dialCtx, r.Network, r.Address)
	if err != nil {
		_ = out.writeJSON(kindDone, answer{Error: err.Error()}) // A caller that has gone needs no answer.
		return
	}
	defer func() { _ = far.Close() }()                         // Both directions have ended.
	stop := context.AfterFunc(ctx, func() { _ = far.Close() }) // Ends the copies.
	defer stop()
	if out.writeJSON(kindDone, answer{}) != nil {
		return
	}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		pass(conn, far)
	}()
	pass(far, conn)
	<-returned
}

// pass copies one direction and then closes the receiver's sending half. Without such a half, and if the copy failed,
// it closes both connections.
func pass(to io.WriteCloser, from io.ReadCloser) {
	_, err := io.Copy(to, from)
	half, ok := to.(interface{ CloseWrite() error })
	if ok && err == nil {
		err = half.CloseWrite()
	}
	if !ok || err != nil {
		_, _ = to.Close(), from.Close() // Nothing more can be passed.
	}
}

// Session identifies what one process of the harness has on a node.
type Session string

var sessionForm = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

// IsSession reports whether a text can name a session.
func IsSession(text string) bool { return sessionForm.MatchString(text) }

// Unit is the systemd unit that listens.
func (s Session) Unit() string { return "seatrial-link-" + string(s) + ".service" }

// Sessions is the directory of the sessions' programs. /run may forbid to execute, /usr may be read-only.
const Sessions = "/var/lib/seatrial/link"

// Program is the path of the agent's binary.
func (s Session) Program() string { return Sessions + "/" + string(s) + "/seatrial-agent" }

// RunDir is the directory, in memory, of what a boot removes.
func (s Session) RunDir() string { return "/run/seatrial/link/" + string(s) }

// IdentityFile holds the unit's certificate and key.
func (s Session) IdentityFile() string { return s.RunDir() + "/identity.json" }

// PortFile holds the port that the unit listens on.
func (s Session) PortFile() string { return s.RunDir() + "/port" }

// SessionsIn returns the sessions that have a directory below seatrial/link in any of dirs.
func SessionsIn(dirs ...string) []Session {
	var found []Session
	for _, dir := range dirs {
		list, _ := filepath.Glob(dir + "/seatrial/link/*") // The pattern is a good one.
		for _, one := range list {
			if name := filepath.Base(one); IsSession(name) && !slices.Contains(found, Session(name)) {
				found = append(found, Session(name))
			}
		}
	}
	return found
}
