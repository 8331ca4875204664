package kind

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/seatrial/seatrial/clusters"
)

// The test binary is the container engine too: under the name docker it keeps its containers in a file beside that name
// and runs what is to be run in a container here, in a session of its own, so that it outlives its client as in docker.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "docker" {
		os.Exit(fakeDocker(filepath.Dir(os.Args[0]), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// fakeEngine makes such an engine with the given containers.
func fakeEngine(t *testing.T, list ...container) engine {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	must(t, os.Symlink(self, filepath.Join(dir, "docker")))
	store(dir, list)
	return engine{name: "docker", path: filepath.Join(dir, "docker")}
}

// calls returns the command lines the engine was called with, without the marks of commands.
func calls(t *testing.T, e engine) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(e.path), "calls"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	must(t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func made(name, cluster, role, run, status string, addrs ...string) container {
	var c container
	c.ID, c.Name, c.State.Status = "id-of-"+name, "/"+name, status
	c.Config.Labels = map[string]string{clusterLabel: cluster, roleLabel: role}
	if run != "" {
		c.Mounts = append(c.Mounts, mount{Destination: markDir + run})
	}
	networks(&c, addrs)
	return c
}

func networks(c *container, addrs []string) {
	type network = struct {
		IPAddress         string `json:"IPAddress"`
		GlobalIPv6Address string `json:"GlobalIPv6Address"`
	}
	addrs = append(slices.Clone(addrs), "", "")
	c.NetworkSettings.Networks = map[string]network{"kind": {addrs[0], addrs[1]}}
}

func aNode(e engine, name string) *node {
	return &node{engine: e, name: name, role: "worker", netns: &netnsCache{}, turn: semaphore.NewWeighted(1)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func store(dir string, list []container) {
	text, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "containers.new"), text, 0o600)
	}
	if err == nil { // At once, since others read it.
		err = os.Rename(filepath.Join(dir, "containers.new"), filepath.Join(dir, "containers"))
	}
	if err != nil {
		panic(err)
	}
}

func load(dir string) (list []container) {
	text, err := os.ReadFile(filepath.Join(dir, "containers"))
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		panic(err)
	}
	return list
}

func say(w io.Writer, code int, format string, args ...any) int {
	_, _ = fmt.Fprintf(w, format+"\n", args...)
	return code
}

// fakeNetwork has the addresses below those ending in 5 free, but for one of 2.
const fakeNetwork = `[{"IPAM":{"Config":[{"Subnet":"172.18.0.0/16","Gateway":"172.18.0.1"},{"Subnet":"fc00::/64"}]},
"Containers":{"a":{"IPv4Address":"172.18.0.2/16","IPv6Address":"fc00::2/64"}}}]`

// fakeDocker is the engine's main function.
func fakeDocker(dir string, args []string) int {
	log, err := os.OpenFile(filepath.Join(dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	line := strings.Join(args, " ")
	if i := strings.Index(line, execMark+"="); i >= 0 && !strings.Contains(line, "find /proc") {
		end := strings.IndexByte(line[i:], ' ')
		line = line[:i] + "MARK" + line[i+end:]
	}
	_, _ = fmt.Fprintln(log, line)
	_ = log.Close()
	if refuse, err := os.ReadFile(filepath.Join(dir, "refuse-"+args[0])); err == nil {
		return say(os.Stderr, 1, "%s", refuse)
	}
	list := load(dir)
	last := args[len(args)-1]
	switch args[0] {
	case "info":
		return say(os.Stdout, 0, "1")
	case "ps":
		want := strings.TrimPrefix(args[3], "label=")
		for _, c := range list {
			if want == clusterLabel || want == clusterLabel+"="+c.Config.Labels[clusterLabel] {
				say(os.Stdout, 0, "%s", strings.TrimPrefix(c.Name, "/"))
			}
		}
		return 0
	case "inspect":
		return fakeInspect(list, slices.DeleteFunc(args[1:], func(a string) bool {
			return a == "--type" || a == "container"
		}))
	case "logs":
		if !slices.ContainsFunc(list, func(c container) bool { return c.Name == "/"+last }) {
			return say(os.Stderr, 1, "Error response from daemon: No such container: %s", last)
		}
		return say(os.Stdout, 0, "console of %s", last)
	case "network":
		return say(os.Stdout, 0, "%s", fakeNetwork)
	case "run", "rm":
		text, err := os.ReadFile(filepath.Join(dir, "seat-addresses"))
		if i := slices.Index(args, "--name"); err == nil && args[0] == "run" && strings.HasSuffix(args[i+1], "-seat") {
			addrs := strings.Fields(string(text))
			store(dir, append(list, made(args[i+1], "", "", "", clusters.StateRunning, addrs...)))
		}
		return 0
	case "cp":
		return fakeCopy(dir, strings.TrimPrefix(filepath.Base(args[1]), "old-"))
	case "exec":
		return fakeExec(list, args[1:])
	}
	i := slices.IndexFunc(list, func(c container) bool { return c.Name == "/"+last })
	if i < 0 {
		return say(os.Stderr, 1, "Error response from daemon: No such container: %s", last)
	}
	states := map[string]string{
		"restart": "running", "start": "running", "unpause": "running",
		"pause": "paused", "stop": "exited", "kill": "exited",
	}
	list[i].State.Status = states[args[0]]
	next, err := os.ReadFile(filepath.Join(dir, "next-addresses"))
	if err == nil && list[i].state() == clusters.StateRunning {
		networks(&list[i], strings.Fields(string(next)))
	}
	if list[i].state() == clusters.StateExited {
		networks(&list[i], nil)
	}
	store(dir, list)
	return 0
}

func fakeInspect(list []container, names []string) int {
	code, found := 0, []container{}
	for _, name := range names {
		i := slices.IndexFunc(list, func(c container) bool { return c.Name == "/"+name })
		if i < 0 {
			code = say(os.Stderr, 1, "Error response from daemon: No such container: %s", name)
			continue
		}
		found = append(found, list[i])
	}
	_ = json.NewEncoder(os.Stdout).Encode(found)
	return code
}

func fakeCopy(dir, name string) int {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return say(os.Stderr, 1, "Error response from daemon: Could not find the file %s", name)
	}
	w := tar.NewWriter(os.Stdout)
	_ = w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o600})
	_, _ = w.Write(text)
	_ = w.Close()
	return 0
}

func fakeExec(list []container, args []string) int {
	interactive, env := false, os.Environ()
	for strings.HasPrefix(args[0], "-") {
		if args[0] == "--interactive" {
			interactive = true
		} else {
			env, args = append(env, args[1]), args[1:]
		}
		args = args[1:]
	}
	i := slices.IndexFunc(list, func(c container) bool { return c.Name == "/"+args[0] })
	if i < 0 {
		return say(os.Stderr, 1, "Error response from daemon: No such container: %s", args[0])
	}
	if state := list[i].state(); state != clusters.StateRunning {
		return say(os.Stderr, 1, "Error response from daemon: Container %s is %s", args[0], state)
	}
	if args[1] == "socat" {
		return fakeSocat(args[len(args)-1])
	}
	cmd := exec.Command(args[1], args[2:]...)
	// Writers of another type than file are copied to, so that only this client holds the pipes to its caller.
	cmd.Env, cmd.Stdout, cmd.Stderr = env, struct{ io.Writer }{os.Stdout}, struct{ io.Writer }{os.Stderr}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if interactive {
		cmd.Stdin = os.Stdin
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode()
	case errors.As(err, &exit):
		return 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
	default: // Docker says this on standard output.
		return say(os.Stdout, 126, "OCI runtime exec failed: exec failed: %v: unknown", err)
	}
}

// fakeSocat does what "socat -d -d -t 1 STDIO TCP4:..." does.
func fakeSocat(address string) int {
	_, target, _ := strings.Cut(address, ":")
	target, _, _ = strings.Cut(target, ",")
	if strings.HasSuffix(target, ":9") { // The discard port stands for an address that never answers.
		_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
		return 1
	}
	conn, err := net.Dial("tcp", target)
	if err != nil {
		return say(os.Stderr, 1, "2026/11/21 07:00:00 socat[7] E connect(5, AF=2 %s, 16): Connection refused", target)
	}
	say(os.Stderr, 0, "2026/11/21 07:00:00 socat[7] N starting data transfer loop with FDs [0,1] and [5,5]")
	ends := make(chan error, 2)
	go func() {
		_, err := io.Copy(conn, os.Stdin)
		_ = conn.(*net.TCPConn).CloseWrite()
		ends <- err
	}()
	go func() {
		_, err := io.Copy(os.Stdout, conn)
		_ = os.Stdout.Close()
		ends <- err
	}()
	if err := <-ends; errors.Is(err, syscall.ECONNRESET) {
		return say(os.Stderr, 1, "2026/11/21 07:00:00 socat[7] E read(5, 0x5, 8192): Connection reset by peer")
	}
	select {
	case <-ends: //nolint:errcheck // Which error the second direction ended with changes nothing.
	case <-time.After(time.Second):
	}
	return 0
}
