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
	"slices"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/mark"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/history"
)

// streamPort is where streams go to, and pace is the time between two packets of one.
const (
	streamPort = 7777
	pace       = time.Millisecond
)

// gap is a hole in a stream: when the last packet before it that came through was sent, and the first after it.
type gap struct {
	Last  history.Time `json:"last"`
	First history.Time `json:"first"`
}

// stream sends numbered packets with the time to an address until its standard input ends.
func stream(address string) error {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	packet := make([]byte, 16)
	for n := uint64(0); ; n++ {
		binary.BigEndian.PutUint64(packet, n)
		binary.BigEndian.PutUint64(packet[8:], uint64(bootclock.Now()))
		_, _ = conn.Write(packet) // What is cut is an error, or none.
		if err := await.For(context.Background(), pace); err != nil {
			return err
		}
	}
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
	last, at := uint64(0), history.Time(0)
	for packet := make([]byte, 16); ; {
		n, err := conn.Read(packet)
		if errors.Is(err, net.ErrClosed) {
			return json.NewEncoder(os.Stdout).Encode(gaps)
		}
		if err != nil || n != len(packet) {
			continue
		}
		number, sent := binary.BigEndian.Uint64(packet), history.Time(binary.BigEndian.Uint64(packet[8:]))
		if at == 0 {
			if _, err := fmt.Println("hearing..."); err != nil { // As long as the word before.
				return err
			}
		}
		if at > 0 && number > last+1 {
			gaps = append(gaps, gap{Last: at, First: sent})
		}
		last, at = number, sent
	}
}

// streams sends one stream in each direction and family, and returns what ends them and returns their gaps.
func (l lab) streams(b *testing.B) (end func() [][]gap) {
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
		cmd := s.command(context.Background(), []string{mark.AgentPath, do, address})
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
	return func() [][]gap {
		all := make([][]gap, len(heard))
		for i, h := range heard {
			if err := errors.Join(h.stop.Close(), json.NewDecoder(h.out).Decode(&all[i]), h.wait()); err != nil {
				b.Error(err)
			}
		}
		for _, s := range sent {
			_ = s.stop.Close()
			_ = s.wait()
		}
		return all
	}
}

// cutAt is one cut of a benchmark: when its transaction had been committed, and when it was to be over.
type cutAt struct{ committed, over history.Time }

// of returns the gap that a cut has made in a stream.
func (c cutAt) of(gaps []gap) (gap, bool) {
	half := c.committed + (c.over-c.committed)/2
	i := slices.IndexFunc(gaps, func(g gap) bool { return g.Last < c.over && g.First > half })
	if i < 0 {
		return gap{}, false
	}
	return gaps[i], true
}

// cutsOfABenchmark is how many cuts an operation makes: enough for a 99th percentile.
const cutsOfABenchmark = 100

// BenchmarkCut measures what a cut is worth, on the streams that it cuts: how late the last packet comes through after
// its transaction was committed (target: 50 ms), how far the directions are apart (5 ms), and how far its length is
// from what was planned (100 ms), when it is healed and when nobody does. All are 99th percentiles of 100 cuts.
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
	s := l.severance(b)
	s.life = life
	if err := s.apply(ctx); err != nil {
		b.Fatal(err)
	}
	c := cutAt{committed: bootclock.Now()}
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

func measured(b *testing.B, cuts []cutAt, streams [][]gap) {
	b.Helper()
	var late, apart, off []time.Duration
	for _, c := range cuts {
		var lasts []history.Time
		for _, gaps := range streams {
			g, ok := c.of(gaps)
			if !ok {
				b.Fatalf("a cut at %s has left no gap in a stream", c.committed)
			}
			lasts = append(lasts, g.Last)
			late = append(late, max(0, g.Last.Sub(c.committed)))
			off = append(off, (g.First.Sub(g.Last) - c.over.Sub(c.committed)).Abs())
		}
		apart = append(apart, slices.Max(lasts).Sub(slices.Min(lasts)))
	}
	for _, m := range []struct {
		of   []time.Duration
		name string
	}{{late, "late-p99-ms"}, {apart, "apart-p99-ms"}, {off, "length-off-p99-ms"}} {
		slices.Sort(m.of)
		b.ReportMetric(float64(m.of[len(m.of)*99/100])/1e6, m.name)
	}
}
