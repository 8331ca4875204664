package mountledger

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// By these the tests tell the processes that they start what to do.
const (
	childVariable  = "SEATRIAL_TEST_NAMESPACE"
	loopVariable   = "SEATRIAL_TEST_LOOP"
	targetVariable = "SEATRIAL_TEST_TARGET"
)

// inNamespace runs the calling test again as a process with a mount namespace of its own and returns false; in that
// process it returns true. It skips where that is not to be done.
func inNamespace(tb testing.TB, again ...string) bool {
	tb.Helper()
	if os.Getenv(childVariable) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			tb.Fatalf("make the mounts private: %v", err)
		}
		return true
	}
	if os.Getenv("SEATRIAL_E2E") != "1" {
		tb.Skip("NOT RUN: needs root and real mounts; set SEATRIAL_E2E=1")
	}
	if os.Geteuid() != 0 {
		tb.Fatal("SEATRIAL_E2E=1 and not root: this test makes mounts")
	}
	cmd := exec.CommandContext(tb.Context(), "/proc/self/exe", append(again, "-test.v")...)
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("in a mount namespace of its own: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS: "+tb.Name()) && !strings.Contains(string(out), "Benchmark") {
		tb.Fatalf("in a mount namespace of its own: the test did not run:\n%s", out)
	}
	tb.Logf("in a mount namespace of its own:\n%s", out)
	return false
}

// kept is a Sink that keeps what it is given.
type kept struct {
	mu     sync.Mutex
	events []history.Event
}

func (k *kept) Put(events []history.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, events...)
}

// find waits until an event matches, at most ten seconds.
func (k *kept) find(t *testing.T, what string, match func(history.Event) bool) history.Event {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(10 * time.Second)
	for {
		for _, e := range k.copy() {
			if match(e) {
				return e
			}
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("waited 10 s for %s; %d events, last: %+v", what, len(k.copy()), k.copy()[len(k.copy())-1])
		}
	}
}

func (k *kept) copy() []history.Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]history.Event(nil), k.events...)
}

func mountAt(action history.MountAction, path string) func(history.Event) bool {
	return func(e history.Event) bool { return e.Mount != nil && e.Mount.Action == action && e.Mount.Path == path }
}

// startLedger runs a ledger until the test ends and returns when it sees.
func startLedger(t *testing.T, cfg Config) (*kept, func()) {
	t.Helper()
	sink := &kept{}
	cfg.Node, cfg.Boot, cfg.Log = "node-1", "1.000s", slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- Run(ctx, cfg, sink, func() error { close(ready); return nil }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("run: %v", err)
	}
	return sink, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
}

func mustMount(t testing.TB, source, target, fsType string, flags uintptr, data string) {
	t.Helper()
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(source, target, fsType, flags, data); err != nil {
		t.Fatalf("mount %q at %q: %v", source, target, err)
	}
}

func mustUnmount(t testing.TB, target string) {
	t.Helper()
	if err := unix.Unmount(target, 0); err != nil {
		t.Fatalf("unmount %q: %v", target, err)
	}
}

func TestRealMounts(t *testing.T) {
	if !inNamespace(t, "-test.run=^TestRealMounts$") {
		return
	}
	for _, method := range []Method{MethodFanotify, MethodPollPri} {
		t.Run(string(method), func(t *testing.T) { testMethod(t, method) })
	}
}

func testMethod(t *testing.T, method Method) {
	base := t.TempDir()
	old, fresh := filepath.Join(base, "old"), filepath.Join(base, "a b\tc\\d")
	bind, moved := filepath.Join(base, "bind"), filepath.Join(base, "moved")
	mustMount(t, "none", old, "tmpfs", 0, "")
	defer mustUnmount(t, old)
	sink, stop := startLedger(t, Config{Method: method, Before: []string{"no-such-program"}})
	on := sink.find(t, "on", func(e history.Event) bool {
		return e.Observer != nil && e.Observer.State == history.ObserverOn && e.Observer.Name == ObserverMounts
	})
	if said := on.Observer.Detail; !strings.HasPrefix(said, string(method)) || !strings.Contains(said, NothingRan) {
		t.Errorf("on: detail %q, want method %q and that nothing ran", said, method)
	}
	sink.find(t, "the mount that was there", mountAt(history.MountPresent, old))

	before := bootclock.Now()
	mustMount(t, "none", fresh, "tmpfs", unix.MS_RDONLY, "")
	after := bootclock.Now()
	attach := sink.find(t, "the mount", mountAt(history.MountAttach, fresh))
	if s := attach.Span; s.NotBefore > after || s.NotAfter < before {
		t.Errorf("attach at %v, mounted in [%v, %v]", s, before, after)
	}
	m := *attach.Mount
	want := history.Mount{
		Action: history.MountAttach, Node: "node-1", Boot: "1.000s", MountID: m.MountID, Identity: m.Identity,
		Root: "/", Path: fresh, FSType: "tmpfs", ReadOnly: true,
	}
	if m != want || m.Identity.Key() == "" || m.MountID == 0 {
		t.Errorf("attach: %+v, want %+v", m, want)
	}
	if err := os.Mkdir(filepath.Join(old, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	mustMount(t, filepath.Join(old, "sub"), bind, "", unix.MS_BIND, "")
	if m := sink.find(t, "the bind mount", mountAt(history.MountAttach, bind)).Mount; m.Root != "/sub" {
		t.Errorf("bind mount: root %q, want /sub", m.Root)
	}
	if err := os.Mkdir(moved, 0o755); err != nil {
		t.Fatal(err)
	}
	mustMount(t, fresh, moved, "", unix.MS_MOVE, "")
	again := sink.find(t, "the moved mount", mountAt(history.MountAttach, moved))
	if method == MethodFanotify && again.Mount.MountID != attach.Mount.MountID {
		t.Errorf("moved mount has id %d, had %d", again.Mount.MountID, attach.Mount.MountID)
	}
	for _, path := range []string{moved, bind} {
		id := sink.find(t, "attach", mountAt(history.MountAttach, path)).Mount.MountID
		mustUnmount(t, path)
		sink.find(t, "detach of "+path, func(e history.Event) bool {
			return e.Mount != nil && e.Mount.Action == history.MountDetach && e.Mount.MountID == id
		})
	}
	last := bootclock.Now()
	said := func(state history.ObserverState) func(history.Event) bool {
		return func(e history.Event) bool {
			o := e.Observer
			return o != nil && o.State == state && o.Name == ObserverMounts && e.Span.NotBefore >= last
		}
	}
	sink.find(t, "a beat", said(history.ObserverBeat))
	stop()
	sink.find(t, "off", said(history.ObserverOff))
	for _, e := range sink.copy() {
		if e.Source != "ledger/node-1" || e.Observer != nil && e.Observer.State == history.ObserverLoss {
			t.Errorf("unexpected: %+v %+v", e, e.Observer)
		}
	}
}

// TestRealLoopIdentity shows that two loop devices over one file, each mounted in a mount namespace of its own, have
// one key, and a third one over another file has another.
func TestRealLoopIdentity(t *testing.T) {
	if !inNamespace(t, "-test.run=^TestRealLoopIdentity$") {
		return
	}
	base := t.TempDir()
	keys := make([]string, 3)
	for i := range keys {
		image := filepath.Join(base, []string{"one", "one", "two"}[i])
		if _, err := os.Stat(image); err != nil {
			makeImage(t, image)
		}
		loop := attachLoop(t, image)
		target := filepath.Join(base, "m"+loop[len("/dev/loop"):])
		if err := os.MkdirAll(target, 0o755); err != nil {
			t.Fatal(err)
		}
		sink, stop := startLedger(t, Config{Method: MethodFanotify})
		if i == 1 {
			keys[i] = mountElsewhere(t, loop, target)
		} else {
			mustMount(t, loop, target, "ext4", 0, "")
			m := sink.find(t, "the mount", mountAt(history.MountAttach, target)).Mount
			if m.Identity.BackingFile != image || m.Identity.BackingInode == 0 || m.Unknown {
				t.Errorf("identity %+v, want backing file %q", m.Identity, image)
			}
			keys[i] = m.Identity.Key()
			defer mustUnmount(t, target)
		}
		stop()
	}
	if keys[0] != keys[1] || keys[0] == keys[2] || !strings.HasPrefix(keys[0], "file:") {
		t.Errorf("keys %q: want the first two equal and the third another", keys)
	}
}

// mountElsewhere mounts the device in another mount namespace, seen by a ledger there, and returns its key.
func mountElsewhere(t *testing.T, loop, target string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), loopVariable+"="+loop, targetVariable+"="+target)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("in another mount namespace: %v\n%s", err, out)
	}
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for lines.Scan() {
		if key, ok := strings.CutPrefix(lines.Text(), "KEY "); ok {
			return key
		}
	}
	t.Fatalf("in another mount namespace: no key in %q", out)
	return ""
}

// mountForAnother is what this program does for mountElsewhere: it mounts, and tells the key that its ledger saw.
func mountForAnother(loop, target string) int {
	sink := &kept{}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cfg := Config{Node: "node-2", Boot: "1.000s", Method: MethodFanotify, Log: slog.New(slog.DiscardHandler)}
	err := Run(ctx, cfg, sink, func() error {
		defer cancel()
		if err := unix.Mount(loop, target, "ext4", 0, ""); err != nil {
			return err
		}
		for ctx.Err() == nil {
			for _, e := range sink.copy() {
				if mountAt(history.MountAttach, target)(e) {
					_, err := os.Stdout.WriteString("KEY " + e.Mount.Identity.Key() + "\n")
					return errors.Join(err, unix.Unmount(target, 0))
				}
			}
		}
		return unix.Unmount(target, 0)
	})
	if err != nil {
		_, _ = os.Stdout.WriteString(err.Error() + "\n")
		return 1
	}
	return 0
}

func makeImage(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 16<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", path).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
}

func attachLoop(t *testing.T, image string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "losetup", "--find", "--show", image).Output()
	if err != nil {
		t.Fatalf("losetup: %v", err)
	}
	loop := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", loop).CombinedOutput(); err != nil {
			t.Errorf("losetup --detach %s: %v\n%s", loop, err, out)
		}
	})
	return loop
}
