package mountledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/observe/ledgerfile"
)

// By these the benchmark tells the processes that it starts what to do.
const (
	benchVariable = "SEATRIAL_BENCH_LEDGER"
	playVariable  = "SEATRIAL_BENCH_PLAY"
)

// load is a way in which mounts come and go.
type load struct {
	name  string
	count int
	hold  time.Duration
	pause time.Duration // Between two mounts; 0 makes a burst.
}

// loads are 20,000 mounts.
func loads() []load {
	const apart = 500 * time.Microsecond
	return []load{
		{"hold=0", 5000, 0, apart},
		{"hold=100us", 4000, 100 * time.Microsecond, apart},
		{"hold=1ms", 2000, time.Millisecond, apart},
		{"hold=10ms", 800, 10 * time.Millisecond, apart},
		{"hold=100ms", 200, 100 * time.Millisecond, apart},
		{"burst", 8000, 0, 0},
	}
}

// row is what one method made of one load.
type row struct {
	Method       Method
	Others       int // Other mounts in the namespace.
	Load         string
	Mounts       int
	Caught       int // Attach facts, identified or not.
	Unidentified int // Attach facts that say that the mount was gone before it could be identified.
	Losses       int
	P50, P99     time.Duration // From before mount(2) to the record in the file; of what was caught.
	CPU          time.Duration // Of the ledger's process.
}

// BenchmarkLedger mounts and unmounts under every method, 20 and 1,000 other mounts being there, in a process with a
// mount namespace of its own. It is one run whatever -benchtime says.
func BenchmarkLedger(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("NOT RUN: needs root, it makes mounts")
	}
	cmd := exec.CommandContext(b.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), benchVariable+"="+b.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("in a mount namespace of its own: %v", err)
	}
	var rows []row
	if err := json.Unmarshal(out, &rows); err != nil {
		b.Fatal(err)
	}
	for _, r := range rows {
		b.Run(fmt.Sprintf("%s/others=%d/%s", r.Method, r.Others, r.Load), func(b *testing.B) {
			share := func(n int) float64 { return 100 * float64(n) / float64(r.Mounts) }
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(r.Mounts), "mounts")
			b.ReportMetric(share(r.Caught), "%caught")
			b.ReportMetric(share(r.Unidentified), "%unidentified")
			b.ReportMetric(float64(r.Losses), "losses")
			b.ReportMetric(float64(r.P50.Microseconds()), "p50-µs")
			b.ReportMetric(float64(r.P99.Microseconds()), "p99-µs")
			b.ReportMetric(float64(r.CPU.Milliseconds()), "cpu-ms")
		})
	}
}

// benchLedger is what this program does for BenchmarkLedger. dir is on a disk, for the ledgers.
func benchLedger(dir string) int {
	rows, err := benchAll(dir)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(rows)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func benchAll(dir string) ([]row, error) {
	runtime.GOMAXPROCS(Processors())
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, err
	}
	base := filepath.Join(dir, "mounts")
	if err := mountAll(base); err != nil {
		return nil, err
	}
	var rows []row
	for _, others := range []int{20, 1000} {
		ids, err := listMounts(0)
		if err != nil {
			return nil, err
		}
		for n := len(ids); n < others; n++ {
			if err := mountAll(filepath.Join(base, "other", strconv.Itoa(n))); err != nil {
				return nil, err
			}
		}
		for _, method := range []Method{MethodFanotify, MethodPollPri} {
			more, err := benchMethod(dir, base, method, max(others, len(ids)))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", method, err)
			}
			rows = append(rows, more...)
		}
	}
	return rows, nil
}

func mountAll(path string) error {
	return errors.Join(os.MkdirAll(path, 0o755), unix.Mount("none", path, "tmpfs", 0, ""))
}

// meter notes when each mount began and when its fact was in the file.
type meter struct {
	mu       sync.Mutex
	begun    []history.Time
	recorded []history.Time // Of attach facts, in their order.
	paths    []string       // Of the same; empty for one that was not identified.
	losses   int
}

func (m *meter) wrote(events []history.Event) {
	now := bootclock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		switch {
		case e.Mount != nil && e.Mount.Action == history.MountAttach:
			m.recorded, m.paths = append(m.recorded, now), append(m.paths, e.Mount.Path)
		case e.Observer != nil && e.Observer.State == history.ObserverLoss:
			m.losses++
		}
	}
}

// meteredFile is a File and its meter.
type meteredFile struct {
	*ledgerfile.File
	meter *meter
}

func (f meteredFile) Put(events []history.Event) {
	f.File.Put(events)
	f.meter.wrote(events)
}

// take returns the row of what was metered since the last call.
func (m *meter) take(r row) row {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Mounts, r.Caught, r.Losses = len(m.begun), len(m.recorded), m.losses
	var took []time.Duration
	for i, path := range m.paths {
		n := i
		if path == "" {
			r.Unidentified++
		} else if got, err := strconv.Atoi(filepath.Base(path)); err == nil {
			n = got
		}
		if r.Caught == r.Mounts || path != "" {
			took = append(took, m.recorded[i].Sub(m.begun[n]))
		}
	}
	if slices.Sort(took); len(took) > 0 {
		r.P50, r.P99 = took[len(took)/2], took[len(took)*99/100]
	}
	m.begun, m.recorded, m.paths, m.losses = nil, nil, nil, 0
	return r
}

func benchMethod(dir, base string, method Method, others int) ([]row, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	file, _, err := ledgerfile.Open(filepath.Join(dir, fmt.Sprintf("%s-%d.jsonl", method, others)), log, Observers()...)
	if err != nil {
		return nil, err
	}
	m := &meter{}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		cfg := Config{Node: "node-1", Boot: "1.000s", Method: method, Log: log}
		done <- Run(ctx, cfg, meteredFile{file, m}, func() error { close(ready); return nil })
	}()
	select {
	case <-ready:
	case err := <-done:
		return nil, err
	}
	var rows []row
	for _, l := range loads() {
		time.Sleep(1500 * time.Millisecond) // What the ledger has to do of its own is done.
		m.take(row{})
		before := usedCPU()
		if err := m.play(filepath.Join(base, "m"), l); err != nil {
			return nil, err
		}
		time.Sleep(1500 * time.Millisecond)
		r := m.take(row{Method: method, Others: others, Load: l.name, CPU: usedCPU() - before})
		share := func(n int) float64 { return 100 * float64(n) / float64(r.Mounts) }
		fmt.Fprintf(os.Stderr, "%-9s others %4d %-11s caught %6.2f %%  unidentified %5.2f %%  losses %4d",
			r.Method, r.Others, r.Load, share(r.Caught), share(r.Unidentified), r.Losses)
		fmt.Fprintf(os.Stderr, "  p50 %8v  p99 %8v  cpu %v\n",
			r.P50.Round(time.Microsecond), r.P99.Round(time.Microsecond), r.CPU.Round(time.Millisecond))
		rows = append(rows, r)
	}
	cancel()
	return rows, errors.Join(<-done, file.Close())
}

// play has the mounts of a load made by a process of its own.
func (m *meter) play(base string, l load) error {
	cmd := exec.Command("/proc/self/exe", base)
	cmd.Env = append(os.Environ(), playVariable+"="+l.name)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("make the mounts of %s: %w", l.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return json.Unmarshal(out, &m.begun)
}

// playLoad is what this program does for play: it makes the mounts, each at a path that ends with its number, and tells
// when each began.
func playLoad(name, base string) int {
	i := slices.IndexFunc(loads(), func(l load) bool { return l.name == name })
	l := loads()[i]
	begun := make([]history.Time, l.count)
	paths := make([]string, l.count)
	err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for i := range paths {
		paths[i] = filepath.Join(base, strconv.Itoa(i))
		err = errors.Join(err, os.MkdirAll(paths[i], 0o755))
	}
	runtime.LockOSThread()
	for i, path := range paths {
		if err != nil {
			break
		}
		begun[i] = bootclock.Now()
		if err = unix.Mount("none", path, "tmpfs", 0, ""); err == nil {
			pause(l.hold)
			err = unix.Unmount(path, 0)
		}
		pause(l.pause)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(begun)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// pause sleeps in the kernel: the runtime's timers are too coarse for a tenth of a millisecond.
func pause(d time.Duration) {
	if d > 0 {
		ts := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&ts, nil) // A signal ends it early, which only makes a hold shorter.
	}
}

func usedCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
