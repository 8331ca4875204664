package mountledger

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// holdVariable tells the process that TestRealHoldings starts which file to write to.
const holdVariable = "SEATRIAL_TEST_HOLD"

// holdVolume is what this program does for TestRealHoldings: it stands for a container. It takes the mounts that are
// there with it, and opens, closes, or ends when it is told.
func holdVolume(file string) int {
	code := make(chan int)
	go func() { code <- holdUntilTold(file) }() // The first thread is left to whoever wants to end it.
	return <-code
}

func holdUntilTold(file string) int {
	if unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil {
		return 1
	}
	in := bufio.NewScanner(os.Stdin)
	_, _ = os.Stdout.WriteString("ready\n")
	var open *os.File
	for in.Scan() {
		var err error
		switch in.Text() {
		case "open":
			open, err = os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
		case "close":
			err = open.Close()
		case "end the first thread":
			endFirstThread()
		case "read only":
			err = unix.Mount("", filepath.Dir(file), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		}
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			return 1
		}
	}
	return 0
}

// endFirstThread ends the thread by which the process is known, and no other.
func endFirstThread() {
	for {
		ends := make(chan bool)
		go func() {
			runtime.LockOSThread()
			if unix.Gettid() == os.Getpid() {
				ends <- true
				_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0) // It does not return.
			}
			ends <- false
			select {}
		}()
		if <-ends {
			return
		}
	}
}

// TestFirstProcessHasEnded: runc was the first in a namespace and has ended. Who has the volume is told by the next.
func TestFirstProcessHasEnded(t *testing.T) {
	s := &space{pids: []int{os.Getpid()}, first: probe.Process{PID: 1 << 30, Name: "runc"},
		volumes: map[string]*history.Holding{"v": {PID: 1 << 30, Program: "runc"}}}
	events := s.countWriters(bootclock.Now())
	if len(events) != 1 || events[0].Holding.PID != os.Getpid() || events[0].Holding.Program == "runc" {
		t.Errorf("facts %+v", events)
	}
	if again := s.countWriters(bootclock.Now()); len(again) > 0 {
		t.Errorf("the same fact again: %+v", again)
	}
}

// container is a process with a mount namespace of its own.
type container struct {
	pid  int
	tell func(word string)
	end  func()
}

func startContainer(t *testing.T, file string) container {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), holdVariable+"="+file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if word, err := bufio.NewReader(out).ReadString('\n'); err != nil || word != "ready\n" {
		t.Fatalf("a container says %q (%v)", word, err)
	}
	return container{
		pid: cmd.Process.Pid,
		tell: func(word string) {
			if _, err := io.WriteString(in, word+"\n"); err != nil {
				t.Fatal(err)
			}
		},
		end: func() {
			if err := in.Close(); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("a container: %v", err)
			}
		},
	}
}

// TestRealHoldings lets two containers have a volume that the node itself has no more.
func TestRealHoldings(t *testing.T) {
	if !inNamespace(t, "-test.run=^TestRealHoldings$") {
		return
	}
	base := t.TempDir()
	image, target := filepath.Join(base, "image"), filepath.Join(base, "volume")
	makeImage(t, image)
	loop := attachLoop(t, image)
	mustMount(t, loop, target, "ext4", 0, "")
	file := filepath.Join(target, "file")
	early := startContainer(t, file)

	sink, stop := startLedger(t, Config{Method: MethodAuto})
	await := func(what string, c container, match func(h history.Holding) bool) history.Event {
		t.Helper()
		return sink.find(t, what, func(e history.Event) bool {
			h := e.Holding // Of this volume: others may be mounted on this machine as well.
			return h != nil && h.PID == c.pid && h.Identity.BackingFile == image && match(*h)
		})
	}
	action := func(a history.ProcessAction) func(history.Holding) bool {
		return func(h history.Holding) bool { return h.Action == a }
	}
	h := await("the container that was there", early, action(history.ProcessPresent)).Holding
	if h.Path != target || h.Identity.BackingFile != image || h.Node != "node-1" || h.Boot != "1.000s" ||
		h.Namespace == 0 || h.Start == 0 || h.Program == "" || h.ReadOnly || h.Writing != 0 {
		t.Errorf("present: %+v", h)
	}
	before := bootclock.Now()
	late := startContainer(t, file)
	started := await("the container that came", late, action(history.ProcessStarted))
	if s := started.Span; s.NotAfter < before || s.Length() > 5*time.Second || started.Source != "ledger/node-1" {
		t.Errorf("started at %v by %q, the container came after %v", s, started.Source, before)
	}
	if started.Holding.Identity.Key() != h.Identity.Key() || started.Holding.Namespace == h.Namespace {
		t.Errorf("started: %+v, want the same volume in another namespace than %+v", started.Holding, h)
	}

	if err := unix.Unmount(target, unix.MNT_DETACH); err != nil { // As umount -l on the node.
		t.Fatal(err)
	}
	late.tell("open")
	await("an open file", late, func(h history.Holding) bool { return h.Writing == 1 })
	late.tell("close")
	late.tell("read only")
	await("the volume read only", late, func(h history.Holding) bool { return h.ReadOnly })
	late.tell("end the first thread")
	awaitZombie(t, late.pid)
	wantNotGone(t, sink, late.pid)
	begin := bootclock.Now()
	late.end()
	gone := await("its end", late, action(history.ProcessGone))
	if gone.Span.NotAfter < begin || gone.Holding.Identity.Key() != h.Identity.Key() {
		t.Errorf("gone at %v, ended after %v: %+v", gone.Span, begin, gone.Holding)
	}
	wantNotGone(t, sink, early.pid)
	stop()
	early.end()
}

// wantNotGone looks once more, and shows that the container is not said to be gone.
func wantNotGone(t *testing.T, sink *kept, pid int) {
	t.Helper()
	since := bootclock.Now()
	sink.find(t, "another look", func(e history.Event) bool {
		return e.Observer != nil && e.Observer.Name == ObserverHoldings && e.Span.NotBefore > since
	})
	for _, e := range sink.copy() {
		if e.Holding != nil && e.Holding.PID == pid && e.Holding.Action == history.ProcessGone {
			t.Errorf("process %d runs, and the volume is gone: %+v", pid, e.Holding)
		}
	}
}

// awaitZombie waits until the first thread of a process has ended.
func awaitZombie(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		stat, err := probe.ParseStat(data)
		if err == nil && stat.State == 'Z' && stat.Threads > 1 && !stat.Ended() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited 10 s for the end of the first thread of %d: %+v (%v)", pid, stat, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestRealTablesAgree reads namespaces in both ways.
func TestRealTablesAgree(t *testing.T) {
	if !inNamespace(t, "-test.run=^TestRealTablesAgree$") {
		return
	}
	base := t.TempDir()
	image, target := filepath.Join(base, "image"), filepath.Join(base, "volume")
	makeImage(t, image)
	mustMount(t, attachLoop(t, image), target, "ext4", 0, "")
	c := startContainer(t, filepath.Join(target, "file"))
	var fast, slow spaceMounts
	slow.old = true
	for _, m := range []*spaceMounts{&fast, &slow} {
		if _, err := m.read([]int{c.pid}, systemDevices(), false); err != nil {
			t.Fatal(err)
		}
		if changed, err := m.read([]int{c.pid}, systemDevices(), true); changed || err != nil {
			t.Errorf("read again: changed %t (%v)", changed, err)
		}
	}
	if fast.old {
		t.Logf("this kernel does not tell the mounts of other namespaces; only their tables are read")
	}
	a, b := fast.volumes(), slow.volumes()
	if len(a) != len(b) || len(a) == 0 {
		t.Fatalf("volumes %+v and %+v", a, b)
	}
	for key, m := range a {
		if o := b[key]; o.Path != m.Path || o.Identity != m.Identity || o.device != m.device {
			t.Errorf("volume %s: %+v and %+v", key, m, o)
		}
	}
	c.end()
	mustUnmount(t, target)
}

// TestCountOpenForWriting counts the files of this process.
func TestCountOpenForWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		t.Fatal(err)
	}
	own, other := deviceName(unix.Major(stat.Dev), unix.Minor(stat.Dev)), deviceName(1<<20, 1)
	count := func() int {
		counts := map[string]int{}
		countOpenForWriting(os.Getpid(), map[string]string{own: "v", other: "other"}, counts)
		if counts["other"] != 0 {
			t.Errorf("counts %v", counts)
		}
		return counts["v"]
	}
	var mine []*os.File
	for i, flags := range []int{os.O_CREATE | os.O_WRONLY, os.O_CREATE | os.O_RDWR, os.O_CREATE | os.O_RDONLY} {
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(i)), flags, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		mine = append(mine, f)
	}
	if got := count(); got < 2 { // Other tests have files of their own.
		t.Errorf("%d files open for writing, want at least 2", got)
	}
	for _, f := range mine {
		_ = f.Close()
	}
}

// BenchmarkHoldingsLook is one look at all namespaces that are there; a ledger takes four a second.
func BenchmarkHoldingsLook(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("NOT RUN: needs root, it reads the namespaces of others")
	}
	h, err := newHoldings()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := h.scan(bootclock.Now()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(h.spaces)), "namespaces")
}
