package nodefacts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledgerNode is a node that does nothing but keep a ledger and let it be tailed.
type ledgerNode struct {
	clusters.Node
	mu    sync.Mutex
	data  []byte
	grown chan struct{} // Closed and made anew when data has grown.
	cut   chan struct{} // Closed to end every connection; made anew by restore.
	down  bool
	mute  bool // Connections stay open and say nothing.
	execs int
}

func newLedgerNode() *ledgerNode {
	return &ledgerNode{grown: make(chan struct{}), cut: make(chan struct{})}
}

func (n *ledgerNode) Name() string { return "node-1" }

func (n *ledgerNode) Role() clusters.Role { return clusters.RoleWorker }

func (n *ledgerNode) write(data string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data = append(n.data, data...)
	close(n.grown)
	n.grown = make(chan struct{})
}

func (n *ledgerNode) set(down, mute bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down, n.mute = down, mute
	close(n.cut)
	n.cut = make(chan struct{})
}

func (n *ledgerNode) Exec(ctx context.Context, cmd clusters.Command) (clusters.Result, error) {
	n.mu.Lock()
	down, mute, cut := n.down, n.mute, n.cut
	n.execs++
	n.mu.Unlock()
	if down {
		return clusters.Result{}, errors.New("the container is not running")
	}
	argv := strings.Join(cmd.Argv[1:], " ")
	var from int
	follow := strings.Contains(argv, "--follow")
	for i, a := range cmd.Argv {
		if a == "--from" {
			from, _ = strconv.Atoi(cmd.Argv[i+1])
		}
	}
	ended := make(chan struct{})
	if follow {
		go func() { _, _ = io.Copy(io.Discard, cmd.Stdin); close(ended) }()
	}
	for {
		n.mu.Lock()
		part, grown := n.data[from:], n.grown
		n.mu.Unlock()
		for len(part) > 0 && !mute { // In pieces of no particular size.
			piece := part[:min(len(part), 37)]
			if _, err := cmd.Stdout.Write(piece); err != nil {
				return clusters.Result{}, err
			}
			part, from = part[len(piece):], from+len(piece)
		}
		if !follow {
			return clusters.Result{}, nil
		}
		select {
		case <-grown:
		case <-ended:
			return clusters.Result{}, nil
		case <-cut:
			return clusters.Result{}, errors.New("the connection broke")
		case <-ctx.Done():
			<-ended
			return clusters.Result{}, ctx.Err()
		}
	}
}

// oneKernel is a cluster whose nodes have the harness's boot clock.
func oneKernel() clusters.Cluster { return fake.NewCluster("c", 0) }

// kept is a Recorder that keeps what it is given.
type kept struct {
	mu     sync.Mutex
	events []history.Event
}

func (k *kept) Record(e history.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.events = append(k.events, e)
}

func (k *kept) copy() []history.Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]history.Event(nil), k.events...)
}

func (k *kept) ids() []uint64 {
	var ids []uint64
	for _, e := range k.copy() {
		if e.Mount != nil {
			ids = append(ids, e.Mount.MountID)
		}
	}
	return ids
}

func (k *kept) states(state history.ObserverState) []history.Event {
	var found []history.Event
	for _, e := range k.copy() {
		if e.Observer != nil && e.Observer.State == state {
			found = append(found, e)
		}
	}
	return found
}

func mountLine(node string, id uint64) string {
	var buf bytes.Buffer
	_ = history.Append(&buf, history.Event{
		Kind: history.KindMount, Source: "somebody", Span: history.At(history.Time(id)),
		Mount: &history.Mount{Action: history.MountAttach, Node: node, MountID: id},
	})
	return buf.String()
}

func beatLine(seen history.Time) string {
	var buf bytes.Buffer
	_ = history.Append(&buf, history.Event{
		Kind: history.KindObserver, Span: history.At(seen),
		Observer: &history.Observer{Name: "mounts", Node: "node-1", Boot: "1s", State: history.ObserverBeat},
	})
	return buf.String()
}

func start(t *testing.T, n *ledgerNode) (*Tailer, *kept) {
	t.Helper()
	recorder := &kept{}
	return Start(t.Context(), Config{Cluster: oneKernel(), Nodes: []clusters.Node{n}, Recorder: recorder,
		Log: slog.New(slog.DiscardHandler)}), recorder
}

func wantIDs(t *testing.T, k *kept, n int) {
	t.Helper()
	ids := k.ids()
	if len(ids) != n {
		t.Fatalf("%d mounts, want %d", len(ids), n)
	}
	for i, id := range ids {
		if id != uint64(i+1) {
			t.Fatalf("mount %d has id %d: lost, doubled or out of order: %v", i, id, ids)
		}
	}
}

func TestTailerSurvivesEverythingOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newLedgerNode()
		n.write(mountLine("node-1", 1) + "\n" + mountLine("node-1", 2))
		tailer, recorder := start(t, n)
		synctest.Wait()
		wantIDs(t, recorder, 2)

		line := mountLine("node-1", 3)
		n.write(line[:20]) // A torn line waits.
		synctest.Wait()
		wantIDs(t, recorder, 2)
		n.set(true, false) // The node goes down in the middle of it.
		time.Sleep(30 * time.Second)
		n.write(line[20:] + mountLine("node-1", 4))
		n.set(false, false)
		time.Sleep(2 * lastPause)
		wantIDs(t, recorder, 4)

		n.set(false, true) // It hangs: connections open and say nothing.
		n.write(mountLine("node-1", 5))
		time.Sleep(3 * silence)
		wantIDs(t, recorder, 4)
		n.set(false, false)
		time.Sleep(2 * lastPause)
		wantIDs(t, recorder, 5)

		n.write(beatLine(bootclock.Now() + history.Time(time.Hour)))
		tailer.Stop(t.Context())
		gaps, losses := recorder.states(history.ObserverGap), recorder.states(history.ObserverLoss)
		if gaps != nil || losses != nil {
			t.Errorf("on record: gaps %+v, losses %+v", gaps, losses)
		}
		for _, e := range recorder.copy() {
			if e.Source != "ledger/node-1" || e.ID != 0 {
				t.Errorf("source %q, id %d", e.Source, e.ID)
			}
		}
	})
}

// clockedNode is a node with a boot clock of its own.
type clockedNode struct {
	*ledgerNode
	clock func() (clusters.NodeClock, error)
}

func (n clockedNode) BootClock(context.Context) (clusters.NodeClock, error) { return n.clock() }

// TestFactsAreOnTheHarnessClock reads a node whose boot clock is not the harness's, before and after a reboot.
func TestFactsAreOnTheHarnessClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var clock atomic.Pointer[clusters.NodeClock]
		n := clockedNode{newLedgerNode(), func() (clusters.NodeClock, error) {
			if c := clock.Load(); c != nil {
				return *c, nil
			}
			return clusters.NodeClock{}, errors.New("no answer")
		}}
		text := func(boot string, at history.Time) string {
			return textOf(t, history.Event{Kind: history.KindMount, Span: history.At(at), Mount: &history.Mount{
				Node: "node-1", Boot: boot, MountID: 1}}, history.Event{Kind: history.KindObserver,
				Span:     history.At(at),
				Observer: &history.Observer{Name: "mounts", Node: "node-1", Boot: boot, State: history.ObserverOn}},
				history.Event{Kind: history.KindProcess, Span: history.At(at),
					Process: &history.Process{Node: "node-1", Start: at}})
		}
		// By the node's clock, which is an hour ahead, and after the reboot begins anew.
		second, begin := history.Time(time.Second), bootclock.Now()
		first, rebooted := begin.Add(time.Hour), time.Duration(begin)+125*time.Second
		n.write(text("1s", first+10*second))
		cluster := fake.NewCluster("c", 0)
		cluster.Able = clusters.Capabilities{}
		recorder := &kept{}
		tailer := Start(t.Context(), Config{Cluster: cluster, Nodes: []clusters.Node{n}, Recorder: recorder,
			Log: slog.New(slog.DiscardHandler)})
		time.Sleep(time.Minute)
		if got := recorder.copy(); len(got) > 0 {
			t.Errorf("recorded without a clock: %+v", got)
		}
		clock.Store(&clusters.NodeClock{Offset: -time.Hour, Error: time.Millisecond})
		time.Sleep(time.Minute)
		n.set(true, false)
		n.write(text("1s", first+20*second) + text("1s again", 10*second))
		clock.Store(&clusters.NodeClock{Offset: rebooted, Error: time.Second})
		n.set(false, false)
		time.Sleep(time.Minute)
		tailer.Stop(t.Context())
		about := func(s history.Span) string {
			return fmt.Sprintf("%s ±%s", s.NotBefore.Add(s.Length()/2).Sub(begin).Round(100*time.Millisecond),
				(s.Length() / 2).Round(10*time.Millisecond))
		}
		var got []string
		for _, e := range recorder.copy() {
			switch {
			case e.Mount != nil:
				got = append(got, about(e.Span)+" "+e.Mount.Boot)
			case e.Process != nil:
				got = append(got, about(e.Span)+" from "+about(history.At(e.Process.Start)))
			case e.Observer.State == history.ObserverOn:
				began := history.At(second.Add(-time.Hour))
				if e.Observer.Boot == "node clock 1s again" {
					began = history.At(second.Add(rebooted))
				}
				if b := e.Observer.Booted; b == nil || !b.PossiblyOverlaps(began) {
					t.Errorf("boot %q began in %v, not at %v", e.Observer.Boot, b, began.NotBefore)
				}
				got = append(got, about(e.Span)+" "+e.Observer.Boot)
			}
		}
		want := []string{
			"10s ±10ms node clock 1s", "10s ±10ms node clock 1s", "10s ±10ms from 10s ±0s",
			"20s ±20ms node clock 1s", "20s ±20ms node clock 1s", "20s ±20ms from 20s ±0s",
			"2m15s ±1.13s node clock 1s again", "2m15s ±1.13s node clock 1s again", "2m15s ±1.13s from 2m13.9s ±0s",
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("on record (-want +got):\n%s", diff)
		}
		if _, ok := history.ParseBoot("node clock 1s"); ok {
			t.Error("a boot of another clock is read as a time of the harness's")
		}
	})
}

// TestAClockIsReadAgainAfterASilence stops a node's clock for 8 s, while the connection stays.
func TestAClockIsReadAgainAfterASilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var offset atomic.Int64
		n := clockedNode{newLedgerNode(), func() (clusters.NodeClock, error) {
			return clusters.NodeClock{Offset: time.Duration(offset.Load()), Error: time.Millisecond}, nil
		}}
		cluster := fake.NewCluster("c", 0)
		cluster.Able = clusters.Capabilities{}
		recorder := &kept{}
		tailer := Start(t.Context(), Config{Cluster: cluster, Nodes: []clusters.Node{n}, Recorder: recorder,
			Log: slog.New(slog.DiscardHandler)})
		const lost = 8 * time.Second
		at := bootclock.Now().Add(time.Second)
		for range 2 {
			n.write(textOf(t, history.Event{Kind: history.KindMount, Span: history.At(at),
				Mount: &history.Mount{Node: "node-1", Boot: "1s", MountID: 1}}))
			time.Sleep(measureEvery - time.Millisecond) // After this the clock is measured anyway.
			offset.Store(int64(lost))
		}
		tailer.Stop(t.Context())
		facts := slices.DeleteFunc(recorder.copy(), func(e history.Event) bool { return e.Mount == nil })
		if late := facts[1].Span.NotAfter.Sub(facts[0].Span.NotAfter); late.Round(time.Second) != lost {
			t.Errorf("the second fact is %s after the first, want %s", late, lost)
		}
	})
}

func TestTailerBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newLedgerNode()
		n.set(true, false)
		tailer, _ := start(t, n)
		time.Sleep(time.Minute)
		tailer.Stop(t.Context())
		if most := int(time.Minute/lastPause) + 15; n.execs > most || n.execs < 20 {
			t.Errorf("%d attempts in 70 s, want at most %d", n.execs, most)
		}
	})
}

func TestStopRecordsAGap(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"down": true, "up, and the ledger is dead": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newLedgerNode()
				n.write(beatLine(bootclock.Now()) + mountLine("node-1", 1))
				tailer, recorder := start(t, n)
				synctest.Wait()
				n.set(down, false)
				begin := time.Now()
				tailer.Stop(t.Context())
				gaps := recorder.states(history.ObserverGap)
				if len(gaps) != 1 {
					t.Fatalf("gaps %+v, want one", gaps)
				}
				o := gaps[0].Observer
				if gaps[0].Source != "tail/node-1" || o.Name != "mounts" || o.Node != "node-1" || o.Boot != "1s" {
					t.Errorf("gap of %q: %+v", gaps[0].Source, o)
				}
				wantIDs(t, recorder, 1)
				if took := time.Since(begin); took > drainBound+lastPause {
					t.Errorf("Stop took %v", took)
				}
			})
		})
	}
}

// TestStopReadsTheRest stops while the connection is broken and the node is up: the last look finds everything.
func TestStopReadsTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newLedgerNode()
		n.set(false, true)
		tailer, recorder := start(t, n)
		synctest.Wait()
		n.write(mountLine("node-1", 1) + beatLine(bootclock.Now()+history.Time(time.Hour)) + mountLine("node-1", 2))
		go func() {
			time.Sleep(drainBound - time.Millisecond)
			n.mu.Lock()
			n.mute = false
			n.mu.Unlock()
		}()
		tailer.Stop(t.Context())
		synctest.Wait()
		wantIDs(t, recorder, 2)
		if gaps := recorder.states(history.ObserverGap); len(gaps) > 0 {
			t.Errorf("gaps %+v", gaps)
		}
	})
}

func TestHostileLinesAreLosses(t *testing.T) {
	t.Parallel()
	long := `{"id":0,"kind":"` + strings.Repeat("x", mostLine)
	hostile := []string{
		"x", "{}", "null", "[]", `{"kind":"mount"}`, `{"kind":"op","op":{"client":1}}`, long, long + long + long,
		strings.TrimSuffix(mountLine("node-2", 1), "\n"), strings.Repeat("[", 20000), "\x00\xff",
		`{"kind":"fault","fault":{"name":"x"}}`, `{"kind":"` + strings.Repeat("x", mostLine/2) + `"}`,
		`{"kind":"mount","span":{"nb":2,"na":1},"mount":{"node":"node-1"}}`,
	}
	for i, line := range hostile {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newLedgerNode()
				n.write(mountLine("node-1", 1) + line + "\n" + mountLine("node-1", 2))
				n.write(beatLine(bootclock.Now() + history.Time(time.Hour)))
				tailer, recorder := start(t, n)
				tailer.Stop(t.Context())
				wantIDs(t, recorder, 2)
				var of []string
				for _, loss := range recorder.states(history.ObserverLoss) {
					of = append(of, loss.Observer.Name)
					if len(loss.Observer.Detail) > 1000 {
						t.Errorf("detail %q", loss.Observer.Detail)
					}
				}
				// The line may have been of any that writes to the ledger.
				if diff := gocmp.Diff([]string{"mounts", "processes", "holdings"}, of); diff != "" {
					t.Errorf("losses (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLinesAreCutRightInAnyPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		some := []string{"", "a", "bc", strings.Repeat("z", mostLine), strings.Repeat("y", mostLine+1)}
		parts := rapid.SliceOfN(rapid.SampledFrom(some), 0, 6).Draw(t, "lines")
		data := strings.Join(parts, "\n") + "\n"
		var want, got []string
		for _, p := range parts {
			if len(p) <= mostLine {
				want = append(want, p)
			}
		}
		if len(parts) == 0 {
			want = []string{""}
		}
		broken := 0
		l := &lines{
			line:   func(_ int64, line []byte) { got = append(got, string(line)) },
			broken: func(int64, error) { broken++ },
		}
		for rest := data; len(rest) > 0; {
			n := min(len(rest), rapid.SampledFrom([]int{1, 3, 1000, mostLine, 1 << 20}).Draw(t, "piece"))
			_, _ = l.Write([]byte(rest[:n]))
			rest = rest[n:]
			if rapid.Bool().Draw(t, "cut") { // The connection breaks; the next begins where lines says.
				l.again()
				rest = data[l.from():]
			}
		}
		wantBroken := max(0, len(parts)-len(want))
		if !slices.Equal(got, want) || l.offset != int64(len(data)) || broken != wantBroken {
			t.Errorf("%d lines, %d broken, offset %d of %d; want %d lines",
				len(got), broken, l.offset, len(data), len(want))
		}
	})
}

// TestALossOfPowerTakesWhatWasRead: the disk has the file up to some byte, and the writer goes on behind it.
func TestALossOfPowerTakesWhatWasRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var got []string
		l := &lines{
			line:   func(_ int64, line []byte) { got = append(got, string(line)) },
			broken: func(offset int64, why error) { t.Errorf("offset %d: %v", offset, why) },
		}
		var data []byte
		var want []string // Without empty lines, which a writer makes when it ends one.
		write := func() {
			for range rapid.IntRange(0, 5).Draw(t, "lines") {
				more := rapid.SampledFrom([]int{0, 3, 1000, mostLine / 4}).Draw(t, "more")
				name := strconv.Itoa(len(want)) + strings.Repeat("z", more)
				want, data = append(want, name), append(append(data, name...), '\n')
			}
		}
		for range rapid.IntRange(1, 8).Draw(t, "boots") {
			write()
			l.again()
			for rest := data[l.from():]; len(rest) > 0; {
				n := min(len(rest), rapid.SampledFrom([]int{1, 7, 1000, 1 << 20}).Draw(t, "piece"))
				_, _ = l.Write(rest[:n])
				rest = rest[n:]
			}
			if got = slices.DeleteFunc(got, func(line string) bool { return line == "" }); !slices.Equal(got, want) {
				t.Fatalf("%d lines, want %d", len(got), len(want))
			}
			written := len(data)
			data = data[:rapid.IntRange(int(l.from()), len(data)).Draw(t, "on disk")]
			gone := written - len(data) // In a line that is longer than mostLine, they are a loss.
			if gone > 0 && gone < mostLine/2 && rapid.Bool().Draw(t, "its length too") {
				data = append(append(data, make([]byte, gone)...), '\n')
				continue
			}
			whole := bytes.LastIndexByte(data, '\n') + 1
			if whole < int(l.from()) || whole < len(data) && rapid.Bool().Draw(t, "ends a line") {
				data = append(data, '\n')
			} else {
				data = data[:whole]
			}
		}
	})
}

// TestZerosThatWereNotReadAreALoss: what was lost there is not known.
func TestZerosThatWereNotReadAreALoss(t *testing.T) {
	t.Parallel()
	var got []string
	l := &lines{line: func(_ int64, line []byte) { got = append(got, string(line)) }}
	_, _ = l.Write([]byte("a\nbc\n"))
	l.again()
	_, _ = l.Write([]byte("a\n\x00\x00\x00\nd\n"))
	l.again()
	_, _ = l.Write([]byte("a\n\x00\x00\x00\nd\ne\n\x00\x00\nf\n"))
	if want := []string{"a", "bc", "d", "e", "\x00\x00", "f"}; !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
}

// TestABlockInTheMiddleIsLost: the disk has zeros in its place, and what was read behind it comes again.
func TestABlockInTheMiddleIsLost(t *testing.T) {
	t.Parallel()
	var got []string
	l := &lines{line: func(_ int64, line []byte) { got = append(got, string(line)) }}
	_, _ = l.Write([]byte("a\nbcd\ne\nfgh\ni\n"))
	for range 2 {
		l.again()
		_, _ = l.Write([]byte("a\nb\x00\x00\x00e\nf\x00h\ni\nj\n"))
	}
	if want := []string{"a", "bcd", "e", "fgh", "i", "j"}; !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(mountLine("node-1", 1)))
	f.Add([]byte(beatLine(1)))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, _, err := files()[0].decode("node-1", line)
		if err != nil {
			return
		}
		_, err = json.Marshal(e)
		if err != nil || e.Source != "ledger/node-1" || e.Op != nil || e.Span.NotAfter < e.Span.NotBefore {
			t.Errorf("decode(%q) = %+v (%v)", line, e, err)
		}
	})
}
