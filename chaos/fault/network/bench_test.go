package network

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// streamPort is where streams go to, and pace is the time between two packets of one.
const (
	streamPort = 7777
	pace       = time.Millisecond
)

// gap is a hole in a stream: the numbers of the last packet before it that came through, and of the first after it.
type gap struct {
	Last  int `json:"last"`
	First int `json:"first"`
}

// heardStream is a stream as both ends saw it: the gaps, and when each packet was sent, by its number.
type heardStream struct {
	gaps []gap
	sent []history.Time
}

// stream sends numbered packets to an address until its standard input ends, and prints when it has sent each. It does
// so in real time, where that is allowed: its pauses make what is measured less certain.
func stream(address string) error {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	first := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	_ = unix.SchedSetAttr(0, &first, 0) // Without it the pauses are longer, and are told.
	ended, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		end()
	}()
	packet, pause := make([]byte, 8), unix.NsecToTimespec(pace.Nanoseconds())
	sent := make([]history.Time, 0, 1<<18)
	for ended.Err() == nil {
		binary.BigEndian.PutUint64(packet, uint64(len(sent)))
		sent = append(sent, bootclock.Now())
		_, _ = conn.Write(packet)       // What is cut is an error, or none.
		_ = unix.Nanosleep(&pause, nil) // A signal makes it shorter.
	}
	return json.NewEncoder(os.Stdout).Encode(sent)
}

// hear takes a stream and prints its gaps when its standard input ends.
func hear(address string) error {
	addr, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp", addr)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = conn.Close()
	}()
	if _, err := fmt.Println("listening."); err != nil {
		return err
	}
	gaps := []gap{}
	last := -1
	for packet := make([]byte, 8); ; {
		n, err := conn.Read(packet)
		if errors.Is(err, net.ErrClosed) {
			return json.NewEncoder(os.Stdout).Encode(gaps)
		}
		if err != nil || n != len(packet) {
			continue
		}
		number := int(binary.BigEndian.Uint64(packet))
		if last < 0 {
			if _, err := fmt.Println("hearing..."); err != nil { // As long as the word before.
				return err
			}
		}
		if last >= 0 && number > last+1 {
			gaps = append(gaps, gap{Last: last, First: number})
		}
		last = number
	}
}

// streams sends one stream in each direction and family, and returns what ends them and returns them.
func (l lab) streams(b *testing.B) (end func() []heardStream) {
	b.Helper()
	type running struct {
		stop io.Closer
		out  io.Reader
		wait func() error
	}
	said := func(out io.Reader) { // The next word of one who listens.
		if _, err := io.ReadFull(out, make([]byte, len("listening.\n"))); err != nil {
			b.Fatal(err)
		}
	}
	begin := func(s *space, do, address string) running {
		cmd := s.command(context.Background(), []string{nodeagent.Path, do, address})
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		if do == "hear" {
			said(stdout)
		}
		return running{stdin, stdout, cmd.Wait}
	}
	var heard, sent []running
	for _, way := range []struct{ from, to *space }{{l.node, l.far}, {l.far, l.node}} {
		for _, ip := range way.to.ips {
			to := netip.AddrPortFrom(ip, streamPort).String()
			heard = append(heard, begin(way.to, "hear", to))
			sent = append(sent, begin(way.from, "stream", to))
		}
	}
	for _, h := range heard { // A cut before the first packet would leave no gap.
		said(h.out)
	}
	return func() []heardStream {
		all := make([]heardStream, len(heard))
		told := func(r running, to any) {
			if err := errors.Join(r.stop.Close(), json.NewDecoder(r.out).Decode(to), r.wait()); err != nil {
				b.Error(err)
			}
		}
		for i := range all {
			told(sent[i], &all[i].sent)
			told(heard[i], &all[i].gaps)
		}
		return all
	}
}

// cutAt is one cut of a benchmark: when it was asked for, when its transaction was known to be committed, and when it
// was to be over.
type cutAt struct{ begun, committed, over history.Time }

// of returns the longest gap of a stream that a cut can have made.
func (c cutAt) of(s heardStream) (longest gap, ok bool) {
	for _, g := range s.gaps {
		within := s.sent[g.First] > c.begun && s.sent[g.Last] < c.over
		if within && g.First-g.Last > longest.First-longest.Last {
			longest, ok = g, true
		}
	}
	return longest, ok
}

// cutsOfABenchmark is how many cuts an operation makes: enough for a 99th percentile.
const cutsOfABenchmark = 100

// BenchmarkCut measures what a cut is worth, on the streams that it cuts: how late the last packet comes through after
// its transaction was committed (target: 50 ms), how far the directions are apart (5 ms), and how far its length is
// from what was planned (100 ms), when it is healed and when nobody does. All are 99th percentiles of 100 cuts.
//
// A packet goes out every millisecond, but on a busy machine its sender may not run for a while. What is at least so is
// what no such pause can explain, by when the packets on both sides of an edge were sent; what is at most so has all of
// it in it.
func BenchmarkCut(b *testing.B) {
	for _, bc := range []struct {
		name   string
		length time.Duration
		healed bool
	}{{"healed", 300 * time.Millisecond, true}, {"left-alone", 300 * time.Millisecond, false}} {
		b.Run(bc.name, func(b *testing.B) {
			l := newLab(b)
			for b.Loop() {
				end := l.streams(b)
				var cuts []cutAt
				for range cutsOfABenchmark {
					cuts = append(cuts, l.cut(b, bc.length, bc.healed))
				}
				measured(b, cuts, end())
			}
		})
	}
}

// cut makes one cut, waits until it is to be over, and a little longer.
func (l lab) cut(b *testing.B, length time.Duration, healed bool) cutAt {
	b.Helper()
	ctx := b.Context()
	life := length
	if healed {
		life = time.Minute
	}
	s := l.filter(b)
	s.Life = life
	begun := bootclock.Now()
	if err := s.apply(ctx); err != nil {
		b.Fatal(err)
	}
	c := cutAt{begun: begun, committed: bootclock.Now()}
	c.over = c.committed.Add(length)
	if err := await.For(ctx, length); err != nil {
		b.Fatal(err)
	}
	if healed {
		if err := s.Heal(ctx); err != nil {
			b.Fatal(err)
		}
	}
	if err := await.For(ctx, length/2); err != nil {
		b.Fatal(err)
	}
	return c
}

func measured(b *testing.B, cuts []cutAt, streams []heardStream) {
	b.Helper()
	all := map[string][]time.Duration{}
	add := func(name string, least, most time.Duration) {
		all[name+"-least"] = append(all[name+"-least"], max(0, least))
		all[name+"-most"] = append(all[name+"-most"], max(0, most))
	}
	for _, c := range cuts {
		var lasts, losts []history.Time // The last packets that came through, and the first that did not.
		for _, s := range streams {
			g, ok := c.of(s)
			if !ok {
				b.Fatalf("a cut at %s has left no gap in a stream", c.committed)
			}
			last, lost, lostLast, first := s.sent[g.Last], s.sent[g.Last+1], s.sent[g.First-1], s.sent[g.First]
			lasts, losts = append(lasts, last), append(losts, lost)
			add("late", last.Sub(c.committed), lost.Sub(c.committed))
			short, long, planned := lostLast.Sub(lost), first.Sub(last), c.over.Sub(c.committed)
			add("length-off", max(short-planned, planned-long), max((short-planned).Abs(), (long-planned).Abs()))
		}
		add("apart", slices.Max(lasts).Sub(slices.Min(losts)), slices.Max(losts).Sub(slices.Min(lasts)))
	}
	for name, of := range all {
		slices.Sort(of)
		b.ReportMetric(float64(of[(len(of)*99+99)/100-1])/1e6, name+"-p99-ms")
	}
}
