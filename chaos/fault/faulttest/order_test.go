package faulttest_test

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent"
)

// order is what a machine does alone.
type order struct {
	nodeagent.Order
	record nodeagent.OrderRecord
	timers []*time.Timer
}

// order carries out a command of the agent about orders. The lock is held.
func (w *world) order(m *machine, argv []string, stdin string) (string, int) {
	switch o := m.order; argv[2] {
	case "start":
		o = &order{}
		if err := json.Unmarshal([]byte(stdin), &o.Order); err != nil {
			return err.Error(), 254
		}
		later := func(after time.Duration, do func()) {
			o.timers = append(o.timers, time.AfterFunc(after, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				if m.order == o && !o.record.Over && w.over.Err() == nil {
					do()
				}
			}))
		}
		m.order = o
		later(o.Lead, func() { w.step(m, o.Act); w.looks(m) })
		later(o.Lead+o.Lasts, func() { w.endOrder(m) })
	case "end":
		w.endOrder(m)
	case "drop":
		w.endOrder(m)
		m.order = nil
	case "read":
		if o == nil {
			return "", 1
		}
		return encode(o.record), 0
	}
	return "", 0
}

// endOrder ends the order of a machine, if it is under way. The lock is held.
func (w *world) endOrder(m *machine) {
	if m.order == nil || m.order.record.Over {
		return
	}
	if len(m.order.record.Did) > 0 {
		w.looks(m)
		w.step(m, m.order.End)
	}
	m.order.record.Over = true
	for _, t := range m.order.timers {
		t.Stop()
	}
}

// looks carries out the looks of a machine's order once, as the agent does again and again. The lock is held.
func (w *world) looks(m *machine) {
	for _, look := range m.order.Looks {
		w.step(m, look)
	}
}

// step carries out a step of a machine's order. The lock is held.
func (w *world) step(m *machine, s nodeagent.Step) {
	did := nodeagent.Did{Argv: s.Argv, Begin: w.time(time.Now()), End: w.time(time.Now())}
	out, exit, _, _ := w.network(m, s.Argv, s.Stdin)
	if did.Out = out; exit != 0 {
		did.Error = "exit code"
	}
	m.order.record.Did = append(m.order.record.Did, did)
}

func orders(line string) bool { return strings.HasPrefix(line, nodeagent.Path+" order ") }
