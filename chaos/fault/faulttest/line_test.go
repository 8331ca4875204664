package faulttest_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/network"
	"github.com/seatrial/seatrial/chaos/fault/node"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/undo"
)

// line is the device of a machine, and its clocks.
type line struct {
	qdisc *qdisc        // At its root; nil is the kernel's own.
	off   time.Duration // How far the wall clock is off those of the others.
	apart bool          // Its kernel is not its own: it is that of all others that are so.
}

// qdisc is a queueing discipline as the world understands it.
type qdisc struct {
	undo.Qdisc
	delay time.Duration // Of netem.
	rate  float64       // Of tbf, in bits a second.
	burst float64       // Of tbf, in bits.
}

// lineCommand carries out a command about the device or the clocks, if it is one. The lock is held.
func (w *world) lineCommand(m *machine, argv []string) (out string, exit int, known bool) {
	line := strings.Join(argv, " ")
	switch {
	case strings.HasPrefix(line, "ip -json route get "):
		return fmt.Sprintf(`[{"dst":%q,"dev":"eth0","prefsrc":"172.18.0.3"}]`, argv[4]), 0, true
	case line == "tc -s -json qdisc show":
		all := []undo.Qdisc{{Kind: "noqueue", Handle: "0:", Device: "lo", Root: true}}
		if m.qdisc != nil {
			all = append(all, m.qdisc.Qdisc)
		}
		return encode(all), 0, true
	case strings.HasPrefix(line, "tc qdisc add dev eth0 root handle "):
		return "", w.addQdisc(m, argv[7], argv[8:]), true
	case strings.HasPrefix(line, "tc qdisc del dev eth0 root handle "):
		if m.qdisc == nil || m.qdisc.Handle != argv[7] {
			return "", 2, true
		}
		m.qdisc = nil
		return "", 0, true
	case strings.HasPrefix(line, nodeagent.Path+" qdisc"):
		if m.qdisc != nil && m.qdisc.Handle == ownerOf(argv).Qdisc() && argv[len(argv)-1] == "eth0" {
			m.qdisc = nil
		}
		return "", 0, true
	case strings.HasPrefix(line, nodeagent.Path+" clock"):
		return w.clock(m, argv[2:]), 0, true
	}
	return "", 0, false
}

func (w *world) addQdisc(m *machine, handle string, what []string) int {
	q := &qdisc{Qdisc: undo.Qdisc{Kind: what[0], Handle: handle, Device: "eth0", Root: true}}
	switch what[0] {
	case "netem":
		by, err := time.ParseDuration(what[4])
		if q.delay = by; what[3] != "delay" || err != nil {
			return 1
		}
	case "tbf":
		kbits, err := strconv.ParseFloat(strings.TrimSuffix(what[2], "kbit"), 64)
		bytes, again := strconv.ParseFloat(strings.TrimSuffix(what[4], "b"), 64)
		if q.rate, q.burst = kbits*1000, bytes*8; err != nil || again != nil {
			return 1
		}
	default:
		return 2
	}
	if m.qdisc != nil {
		return 2 // Exclusivity flag on, cannot modify.
	}
	m.qdisc = q
	if w.inert { // It is said to be there, and does nothing.
		q.delay, q.rate = 0, 0
	}
	return 0
}

// paced says how long echo requests take, and how many of them get through what holds them back on their way. The lock
// is held.
func (w *world) paced(at place, to netip.Addr, e *probe.Echo, interval time.Duration, size int) {
	far := w.places()[to].m
	trip := time.Millisecond
	if far != at.m {
		for _, m := range []*machine{at.m, far} {
			if m.qdisc != nil {
				trip += m.qdisc.delay
			}
		}
	}
	spent := time.Duration(e.Sent) * interval
	if q := at.m.qdisc; q != nil && far != at.m && q.rate > 0 {
		header := 34
		if to.Is6() {
			header = 54
		}
		each, queued := float64(size+header)*8, 400*time.Millisecond
		through := int((q.burst + q.rate*(spent+queued).Seconds()) / each)
		if through < e.Answered {
			q.Overlimits += uint64(e.Answered - through)
			q.Drops += uint64(e.Answered - through)
			e.Answered, spent = through, spent+queued
		}
		q.Bytes += uint64(float64(e.Answered) * each / 8)
	}
	e.Fastest, e.Median = trip, trip+trip/50
	e.First, e.Last = e.Begin.Add(trip), e.Begin.Add(trip+spent)
	if at.m.qdisc != nil || far.qdisc != nil || size > probe.MinEchoSize {
		e.End = e.Last // Elsewhere they are over at once.
	}
}

// clock reads the clocks of a machine, or sets its wall clock. The lock is held.
func (w *world) clock(m *machine, args []string) string {
	c := probe.Clock{At: w.time(time.Now()) - w.time(m.booted), Boot: fmt.Sprintf("%s.%d", m.node.Name(), m.boots)}
	if m.apart {
		c.Boot = "the one of all"
	}
	c.Wall = time.Now().Add(m.off).UnixNano()
	if len(args) == 4 && args[3] == c.Boot && !w.inert {
		ahead, _ := time.ParseDuration(args[1])
		m.off += ahead - c.Ahead()
		c.Wall = time.Now().Add(m.off).UnixNano()
	}
	return encode(c)
}

// crooked says what is left of lines and clocks. The lock is held.
func (m *machine) crooked() []string {
	var out []string
	if m.qdisc != nil {
		out = append(out, m.node.Name()+": "+m.qdisc.Kind)
	}
	if m.off.Abs() > time.Second {
		out = append(out, fmt.Sprintf("%s: the clock is off by %s", m.node.Name(), m.off))
	}
	return out
}

// TestNodesOfOneKernelKeepTheirClock has nodes that tell the same boot, as those of kind do: nothing may be set.
func TestNodesOfOneKernelKeepTheirClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		for _, m := range w.nodes {
			m.apart = true
		}
		_, err := faulttest.Run(t.Context(), node.ClockStep(), w.bench(t, "clock-step"), nil)
		if stageOf(err) != "arm" || !strings.Contains(err.Error(), "shares its kernel") {
			t.Errorf("got %v", err)
		}
		for _, a := range w.cluster.Transcript.Acts() {
			if slices.Contains(a.Argv, "--ahead") {
				t.Errorf("a clock was set: %s", a)
			}
		}
	})
}

// TestALineThatIsWrongIsFound has something be otherwise than planned.
func TestALineThatIsWrongIsFound(t *testing.T) {
	onHold := func(change func(m *machine)) func(w *world) func(history.Fault) {
		return func(w *world) func(history.Fault) {
			return func(f history.Fault) {
				if f.Stage == history.StageConfirmed {
					w.mu.Lock()
					defer w.mu.Unlock()
					change(w.nodes["c-worker"])
				}
			}
		}
	}
	before := func(change func(m *machine)) func(w *world) func(history.Fault) {
		return func(w *world) func(history.Fault) {
			change(w.nodes["c-worker"])
			return nil
		}
	}
	foreign := func(m *machine) {
		m.qdisc = &qdisc{Qdisc: undo.Qdisc{Kind: "htb", Handle: "1:", Device: "eth0", Root: true}}
	}
	for _, tc := range []struct {
		name        string
		def         fault.Definition
		wrong       func(w *world) func(history.Fault)
		stage, says string
	}{
		{"a delay ends early", network.Delay(), onHold(func(m *machine) { m.qdisc = nil }), "hold", "no device has"},
		{"a delay grows", network.Delay(), onHold(func(m *machine) { m.qdisc.delay *= 4 }), "hold",
			"do not leave as planned"},
		{"a line gets wide", network.Bandwidth(), onHold(func(m *machine) { m.qdisc = nil }), "hold", "no device has"},
		{"a line gets wider", network.Bandwidth(), onHold(func(m *machine) { m.qdisc.rate *= 1.5 }), "hold",
			"do not leave as planned"},
		{"it was slow before", network.Delay(), before(func(m *machine) {
			foreign(m)
			m.qdisc.delay = time.Second
		}), "inject", "slow before"},
		{"a device has another's", network.Bandwidth(), before(foreign), "inject", "tc qdisc add"},
		{"a time service mends it", node.ClockStep(), onHold(func(m *machine) { m.off = 0 }), "hold", "off that of"},
		{"it was off before", node.ClockStep(), before(func(m *machine) { m.off = time.Minute }), "inject", "1m0s off"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				_, err := faulttest.Run(t.Context(), tc.def, w.bench(t, tc.def.Name), tc.wrong(w))
				var stage *fault.StageError
				if !errors.As(err, &stage) || stage.Stage != tc.stage || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %v, want %s: %s", err, tc.stage, tc.says)
				}
			})
		})
	}
}
