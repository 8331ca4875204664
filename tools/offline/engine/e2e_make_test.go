package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// inNamespaces is set for the copy of this test that has mounts, processes and a network of its own.
const inNamespaces = "SEATRIAL_HOST_TEST_IN_NAMESPACES"

// TestMakeAndClean makes an engine of a docker that is installed and not running, and then of one that somebody else
// runs, both without a capability that the kernel has, and takes away what it made. It does so in namespaces of its
// own, beside whatever engine the host runs.
func TestMakeAndClean(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: needs root and an installed dockerd; make e2e runs it")
	}
	for _, program := range []string{"dockerd", "docker", "setpriv", "unshare"} {
		if _, err := exec.LookPath(program); err != nil || os.Geteuid() != 0 {
			t.Skipf("NOT RUN: needs root and %s (%v)", program, err)
		}
	}
	if os.Getenv(inNamespaces) == "" {
		again := exec.CommandContext(t.Context(), "setpriv", "--bounding-set", "-sys_resource",
			"unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--propagation", "private",
			os.Args[0], "-test.run", "^TestMakeAndClean$", "-test.v", "-test.timeout", "3m")
		again.Env = append(os.Environ(), inNamespaces+"=1")
		out, err := again.CombinedOutput()
		t.Logf("in namespaces of its own:\n%s", out)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	const before = `{"max-concurrent-downloads": 2}`
	options := isolate(t, before)
	t.Run("installed, not running", func(t *testing.T) {
		makeAndClean(t, options, before)
		if pid := dockerPID(options.Machine); pid != 0 {
			t.Errorf("dockerd (pid %d) was started by Ensure and left by Clean", pid)
		}
	})
	t.Run("run by somebody else", func(t *testing.T) {
		foreign := exec.Command("dockerd")
		if err := foreign.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan error, 1)
		go func() { exited <- foreign.Wait() }()
		if err := awaitDaemon(t.Context(), options, exited); err != nil {
			t.Fatal(err)
		}
		makeAndClean(t, options, before)
		if pid := dockerPID(options.Machine); pid != foreign.Process.Pid {
			t.Errorf("dockerd has pid %d, want the foreign one's %d", pid, foreign.Process.Pid)
		}
		docker, err := ask(t.Context(), options.Machine, Engine{Name: "docker", Path: "docker"})
		if err != nil || docker.Runtime != stockRuntime {
			t.Errorf("its default runtime is %q (%v), want %q", docker.Runtime, err, stockRuntime)
		}
		if err := foreign.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-exited //nolint:errcheck // How it ended is not asked.
	})
}

// isolate hides the host's engine and its configuration from this process.
func isolate(t *testing.T, config string) Options {
	t.Helper()
	for _, dir := range []string{"/run", "/etc/docker", "/var/lib/docker"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			t.Fatalf("mount on %s: %v", dir, err)
		}
	}
	options, err := Options{
		StateDir: t.TempDir(), Out: testWriter{t}, Log: slog.New(slog.DiscardHandler),
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFile(options.DaemonConfig, []byte(config)); err != nil {
		t.Fatal(err)
	}
	return options
}

// makeAndClean expects no engine that works at first, one after Ensure, and the configuration as before after Clean.
func makeAndClean(t *testing.T, options Options, config string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var missing *notFoundError
	if _, err := find(ctx, options); !errors.As(err, &missing) {
		t.Fatalf("before Ensure: %v", err)
	}
	found, err := Ensure(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	if found.Name != "docker" || found.Runtime != runtimeName {
		t.Errorf("Ensure: %+v, want a docker whose runtime is %s", found, runtimeName)
	}
	if err := Clean(ctx, options); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(options.DaemonConfig)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(meaning(t, []byte(config)), meaning(t, after)); diff != "" {
		t.Errorf("docker's configuration (-before +after):\n%s", diff)
	}
	left, err := os.ReadDir(options.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		if strings.HasPrefix(entry.Name(), "runcwrap") || strings.HasPrefix(entry.Name(), "enginecheck") {
			t.Errorf("left behind: %s", entry.Name())
		}
	}
}

// testWriter shows what Ensure says in the test's own output.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(text []byte) (int, error) {
	w.t.Log(string(bytes.TrimSpace(text)))
	return len(text), nil
}
