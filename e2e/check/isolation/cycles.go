package isolation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// snapshot and commit are the nodes of a transaction. Only one of REPEATABLE READ uses both.
func snapshot(txn int32) int32 { return 2 * txn }
func commit(txn int32) int32   { return 2*txn + 1 }

// edge is an edge of the graph. Element is of kinds WW, WR and RW.
type edge struct {
	from, to, element int32
	kind              Edge
}

// graph has two nodes for each transaction and, with real time, one for each end.
type graph struct {
	nodes int
	edges []edge
	first []int32 // By node, of its edges once they are sorted.
}

func (g *graph) add(from, to int32, kind Edge, element int32) {
	if from != to {
		g.edges = append(g.edges, edge{from, to, element, kind})
	}
}

// sort groups the edges by their origin.
func (g *graph) sort() {
	g.first = make([]int32, g.nodes+1)
	for _, e := range g.edges {
		g.first[e.from+1]++
	}
	for n := range g.nodes {
		g.first[n+1] += g.first[n]
	}
	at, sorted := slices.Clone(g.first), make([]edge, len(g.edges))
	for _, e := range g.edges {
		sorted[at[e.from]] = e
		at[e.from]++
	}
	g.edges = sorted
}

// ends adds the order of real time: each end leads to the next end, and to what began after it.
func (j *judge) ends() {
	var order []int32
	for i := range j.txns {
		if j.txns[i].Outcome == history.StageOK {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(j.txns[a].End, j.txns[b].End) })
	chain := int32(j.nodes)
	j.nodes += len(order)
	for n, i := range order {
		j.add(commit(i), chain+int32(n), RealTime, 0)
		if n > 0 {
			j.add(chain+int32(n-1), chain+int32(n), RealTime, 0)
		}
	}
	for i := range j.txns {
		n, _ := slices.BinarySearchFunc(order, j.txns[i].Begin, func(a int32, begin history.Time) int {
			return cmp.Compare(j.txns[a].End, begin) // Ends at the very time of the begin do not count.
		})
		if n == 0 || !j.committed(int32(i)) {
			continue
		}
		to := commit(int32(i))
		if j.txns[i].Level == RepeatableRead {
			to = snapshot(int32(i))
			j.add(to, commit(int32(i)), program, 0)
		}
		j.add(chain+int32(n-1), to, RealTime, 0)
	}
}

// mask is a set of kinds of edges.
type mask uint8

func (m mask) has(kind Edge) bool { return m&(1<<kind) != 0 }

func masked(kinds ...Edge) mask {
	m := mask(1 << program)
	for _, k := range kinds {
		m |= 1 << k
	}
	return m
}

// components returns the strongly connected components of more than one node that a set of edges forms within some
// nodes (Tarjan). Inside is nil for all nodes.
func (g *graph) components(nodes []int32, inside func(int32) bool, kinds mask, s *scratch) [][]int32 {
	var found [][]int32
	next := int32(0)
	for _, n := range nodes {
		s.index[n] = -1
	}
	type frame struct{ node, at int32 }
	var frames []frame
	var stack []int32
	for _, root := range nodes {
		if s.index[root] >= 0 {
			continue
		}
		frames = append(frames, frame{root, g.first[root]})
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			n := f.node
			if s.index[n] < 0 {
				s.index[n], s.low[n] = next, next
				next++
				stack = append(stack, n)
			}
			down := int32(-1)
			for ; f.at < g.first[n+1]; f.at++ {
				e := &g.edges[f.at]
				switch {
				case !kinds.has(e.kind) || !inside(e.to):
				case s.index[e.to] < 0:
					down = e.to
				case s.low[e.to] < done:
					s.low[n] = min(s.low[n], s.low[e.to])
				}
				if down >= 0 {
					break // And look at the edge again, for its low.
				}
			}
			if down >= 0 {
				frames = append(frames, frame{down, g.first[down]})
				continue
			}
			frames = frames[:len(frames)-1]
			if s.low[n] != s.index[n] {
				continue
			}
			at := len(stack) - 1
			for stack[at] != n {
				at--
			}
			for _, m := range stack[at:] {
				s.low[m] = done
			}
			if len(stack)-at > 1 {
				found = append(found, slices.Clone(stack[at:]))
			}
			stack = stack[:at]
		}
	}
	return found
}

// done is the low of a node whose component is complete.
const done = 1<<31 - 1

// scratch is by node.
type scratch struct {
	index, low []int32
	part       []int32 // The number of the component, from 1.
	via        []int32 // The edge by which a search came, plus one.
	budget     int     // Edges that searches for one kind of cycle may still follow.
}

// cycles finds cycles, the plainest first.
func (j *judge) cycles() {
	j.sort()
	s := &scratch{index: make([]int32, j.nodes), low: make([]int32, j.nodes)}
	all := make([]int32, j.nodes)
	for n := range all {
		all[n] = int32(n)
	}
	anywhere := func(int32) bool { return true }
	whole := j.components(all, anywhere, masked(WW, WR, RW, RealTime), s)
	if len(whole) == 0 {
		return
	}
	s.part, s.via = make([]int32, j.nodes), make([]int32, j.nodes)
	told := map[int32]bool{} // Transactions in cycles that were reported.
	for _, c := range []struct {
		own   Edge // Each cycle has one edge of it at least.
		kinds mask // Of all other edges.
	}{
		{WW, masked(WW)}, {WR, masked(WW, WR)}, {RW, masked(WW, WR)}, {RW, masked(WW, WR, RW)},
		{WW, masked(WW, RealTime)}, {WR, masked(WW, WR, RealTime)}, {RW, masked(WW, WR, RealTime)},
		{RW, masked(WW, WR, RW, RealTime)},
	} {
		// For each kind anew: within a component the last kinds find a cycle through the first edge that they follow.
		s.budget = 20*len(j.edges) + 1_000_000
		for _, nodes := range whole {
			for _, n := range nodes {
				s.part[n] = 1
			}
			parts := j.components(nodes, func(n int32) bool { return s.part[n] != 0 }, c.kinds|masked(c.own), s)
			for _, n := range nodes {
				s.part[n] = 0
			}
			for k, part := range parts {
				for _, n := range part {
					s.part[n] = int32(k + 1)
				}
			}
			for _, part := range parts {
				j.search(part, c.own, c.kinds, s, told)
			}
			for _, n := range nodes {
				s.part[n] = 0
			}
		}
	}
}

// search reports a cycle through each edge of a kind in a component, unless both its ends are in one already.
func (j *judge) search(part []int32, own Edge, kinds mask, s *scratch, told map[int32]bool) {
	for _, n := range part {
		for at := j.first[n]; at < j.first[n+1]; at++ {
			e := j.edges[at]
			if e.kind != own || s.part[e.to] != s.part[n] || told[e.from/2] && told[e.to/2] || s.budget < 0 {
				continue
			}
			if path := j.path(e.to, n, kinds, s); path != nil {
				cycle := append([]edge{e}, path...)
				j.record(j.name(cycle))
				for _, e := range cycle {
					told[e.from/2] = told[e.from/2] || int(e.from) < 2*len(j.txns)
				}
			}
		}
	}
}

// path returns a shortest path within a component.
func (j *judge) path(from, to int32, kinds mask, s *scratch) []edge {
	queue := []int32{from}
	defer func() {
		for _, n := range queue {
			s.via[n] = 0
		}
	}()
	s.via[from] = -1
	for at := 0; at < len(queue) && s.via[to] == 0; at++ {
		n := queue[at]
		for k := j.first[n]; k < j.first[n+1]; k++ {
			e := &j.edges[k]
			s.budget--
			if kinds.has(e.kind) && s.part[e.to] == s.part[from] && s.via[e.to] == 0 {
				s.via[e.to] = k + 1
				queue = append(queue, e.to)
			}
		}
	}
	if s.via[to] <= 0 {
		return nil
	}
	var back []edge
	for n := to; n != from; n = back[len(back)-1].from {
		back = append(back, j.edges[s.via[n]-1])
	}
	slices.Reverse(back)
	return back
}

// name says what a cycle is.
func (j *judge) name(edges []edge) Anomaly {
	var a Anomaly
	counts := [RealTime + 1]int{}
	for _, e := range edges {
		if e.kind == program || e.kind == RealTime && int(e.from) >= 2*len(j.txns) {
			continue // Inside of a transaction, and between ends.
		}
		counts[e.kind]++
		step := Step{Txn: int(e.from / 2), Edge: e.kind}
		need := ReadUncommitted
		switch e.kind {
		case WR:
			need = ReadCommitted
		case RW:
			need = j.txns[e.from/2].Level
		}
		if a.Level = max(a.Level, need); e.kind != RealTime {
			step.Key, step.Value = j.elements[e.element].key, j.elements[e.element].value
		}
		a.Cycle = append(a.Cycle, step)
	}
	switch {
	case counts[RW] > 1:
		a.Kind = "G2-item"
	case counts[RW] == 1:
		a.Kind = "G-single"
	case counts[WR] > 0:
		a.Kind = "G1c"
	default:
		a.Kind = "G0"
	}
	if counts[RealTime] > 0 {
		a.Kind += "-realtime"
	}
	x, y := a.Cycle[0], a.Cycle[1%len(a.Cycle)]
	switch {
	case len(a.Cycle) != 2:
	case x.Edge == RW && y.Edge == RW:
		a.Kind += " (write skew)"
	case x.Edge == RW && y.Edge == WW && x.Key == y.Key:
		a.Kind += " (lost update)"
	}
	return a
}

// mostSaid bounds the steps of a cycle that are told.
const mostSaid = 6

// Words says what happened. Name names a transaction.
func (a Anomaly) Words(name func(txn int) string) string {
	if a.text != "" {
		return fmt.Sprintf("%s: %s %s.", a.Kind, name(a.Cycle[0].Txn),
			strings.ReplaceAll(a.text, other, name(a.Cycle[1].Txn)))
	}
	said := make([]string, len(a.Cycle))
	for i, s := range a.Cycle {
		this, next := name(s.Txn), name(a.Cycle[(i+1)%len(a.Cycle)].Txn)
		switch s.Edge {
		case WW:
			said[i] = fmt.Sprintf("%s appended to key %d before %s appended %d to it", this, s.Key, next, s.Value)
		case WR:
			said[i] = fmt.Sprintf("%s read %d in key %d, which %s had appended", next, s.Value, s.Key, this)
		case RW:
			said[i] = fmt.Sprintf("%s read key %d without %d, which %s appended", this, s.Key, s.Value, next)
		default:
			said[i] = fmt.Sprintf("%s had ended before %s began", this, next)
		}
	}
	if more := len(said) - mostSaid; more > 0 {
		said = append(said[:mostSaid], fmt.Sprintf("and so on over %d more, back to the first", more))
	}
	return fmt.Sprintf("%s: %s: each would have to come before itself.", a.Kind, strings.Join(said, "; "))
}
