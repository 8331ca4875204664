package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/anishathalye/porcupine"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Registers judges whether each register is linearizable. A write of unknown outcome may take effect at any later
// moment, or never.
func Registers() Check {
	return Check{
		Name: "registers",
		When: Continuous,
		Promise: "A read of a register returns what was written last: every operation takes effect at one moment " +
			"between its request and its answer.",
		Source: "Herlihy and Wing, Linearizability (1990); MySQL Reference Manual, Consistent Nonlocking Reads (the " +
			"first read of a transaction takes the newest snapshot); with both logs synced at each commit, a " +
			"crash loses no commit",
		Unit:    "reads of registers",
		Applies: func(p plan.Plan) bool { return p.Workload.Registers > 0 },
		judge:   judgeRegisters,
	}
}

// register is one register of one instance.
type register struct {
	instance string
	key      int64
}

func judgeRegisters(r *ruling) {
	ops, reads, txns := map[register][]registerOp{}, map[string]int{}, r.txns(history.OnRegisters)
	for _, t := range txns {
		for _, a := range t.Ops {
			op := registerOp{write: a.Write, value: a.Value, span: t.span, event: t.event}
			switch {
			case a.Write && t.outcome == history.StageFailed, !a.Write && t.outcome != history.StageOK:
				continue
			case a.Write && t.outcome != history.StageOK:
				op.span.NotAfter = world.Forever
			case !a.Write && len(a.Read) > 0:
				op.value = a.Read[0]
			}
			if !a.Write && t.event.Op.Client != history.Auditor {
				reads[t.instance]++
			}
			at := register{t.instance, a.Key}
			ops[at] = append(ops[at], op)
		}
	}
	r.enough("reads of registers", leastReads, reads, txns, "registers")
	byName := func(a, b register) int {
		return cmp.Or(cmp.Compare(a.instance, b.instance), cmp.Compare(a.key, b.key))
	}
	for _, at := range slices.SortedFunc(maps.Keys(ops), byName) {
		r.linearizable(at, ops[at])
	}
}

// registerOp is an operation on a register: it writes a value, or read it. No value is 0, which stands for no register.
type registerOp struct {
	write bool
	value int64
	span  history.Span
	event *history.Event
}

// registerModel is what a register does.
func registerModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, _ any) (bool, any) {
			op, _ := input.(registerOp)
			return op.write || state == op.value, op.value
		},
	}
}

// linearizable judges one register. It names the read that ended first of those that no order explains.
func (r *ruling) linearizable(at register, ops []registerOp) {
	slices.SortStableFunc(ops, func(a, b registerOp) int { return cmp.Compare(a.span.NotAfter, b.span.NotAfter) })
	ended := len(ops)
	for ended > 0 && ops[ended-1].span.NotAfter == world.Forever {
		ended--
	}
	// Whether an order explains the first n to end. Of the other writes, one that was read had taken effect by the end
	// of that read; one that was not may be left out, since it may take effect later.
	explained := func(n int) bool {
		seen := map[int64]history.Time{} // By value: when the first read of it ended.
		var some []porcupine.Operation
		for i, op := range ops {
			end, read := seen[op.value]
			switch {
			case i >= n && (!op.write || !read || end < op.span.NotBefore):
				continue
			case i >= n:
				op.span.NotAfter = end
			case !op.write && !read:
				seen[op.value] = op.span.NotAfter
			}
			some = append(some, porcupine.Operation{Input: op, Call: int64(op.span.NotBefore),
				Return: int64(op.span.NotAfter)})
		}
		return porcupine.CheckOperations(registerModel(), some)
	}
	if explained(ended) {
		return
	}
	n := sort.Search(ended, func(n int) bool { return !explained(n) })
	bad, before := ops[n-1], (*registerOp)(nil)
	for i := range ops[:n-1] {
		if ops[i].write && ops[i].span.CertainlyBefore(bad.span) {
			before = &ops[i]
		}
	}
	f := Finding{Subject: fmt.Sprintf("%s register %d", at.instance, at.key), Span: bad.span,
		Events: []int64{bad.event.ID}}
	last := "nothing had been written before"
	if before != nil {
		f.Span, f.Events = hull(before.span, bad.span), []int64{before.event.ID, bad.event.ID}
		last = fmt.Sprintf("the last write that had ended before is %d, by %s", before.value, txnName(before.event))
	}
	found := fmt.Sprint(bad.value)
	if bad.value == 0 {
		found = "nothing"
	}
	r.violation(f, "%s found %s in register %d of %s, which no order of the writes explains: %s.", txnName(bad.event),
		found, at.key, at.instance, last)
}
