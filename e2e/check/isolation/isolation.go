// Package isolation judges what transactions saw of each other, in histories of appends to lists.
//
// Every read returns a whole list, and no element is appended twice, so the reads tell the order of the appends, and
// the order tells which transaction saw or missed which. The method is that of Elle (Kingsbury and Alvaro, VLDB 2021),
// with the phenomena of Adya's thesis (1999). Levels may be mixed: an edge counts only if the level of the transaction
// that reads promises it (Adya, 5.4), so every cycle breaks a promise. READ COMMITTED may miss what was committed while
// it ran, and nothing from before.
//
// REPEATABLE READ is InnoDB's: plain reads of what the transaction has not written come from one snapshot, while
// writes, and reads after them, are of the newest version (MySQL Reference Manual, Consistent Nonlocking Reads). Such a
// transaction has two nodes: the snapshot, and behind it the commit.
package isolation

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// Level is an isolation level. A higher one promises more.
type Level uint8

// The levels of the SQL standard, as InnoDB has them.
const (
	ReadUncommitted Level = iota
	ReadCommitted
	RepeatableRead
	Serializable
)

func (l Level) String() string { return history.Levels()[l] }

// ParseLevel returns the level of that name.
func ParseLevel(name string) (Level, bool) {
	l := slices.Index(history.Levels(), name)
	return Level(max(l, 0)), l >= 0
}

// Txn is one transaction. It lies between Begin and End.
type Txn struct {
	Level      Level
	Outcome    history.Stage // Any other than ok and failed is unknown, and its reads do not count.
	Begin, End history.Time
	Ops        []history.Access
}

// Edge is why a transaction comes before the next one of a cycle.
type Edge uint8

// The kinds of edges.
const (
	program  Edge = iota // From a snapshot to the commit of the same transaction, or along the chain of ends.
	WW                   // It wrote a version before the other one.
	WR                   // The other one saw what it wrote.
	RW                   // It did not see what the other one wrote.
	RealTime             // It had ended before the other one began.
)

// Step is one transaction of a cycle, and why it comes before the next one.
type Step struct {
	Txn   int
	Edge  Edge
	Key   int64
	Value int64 // Written by the later one (WW), seen (WR) or missed (RW).
}

// Anomaly is one thing that a level does not allow.
type Anomaly struct {
	Kind  string // "G-single", "G1a", "internal".
	Level Level  // The weakest level among those that promise that it does not happen.
	Cycle []Step // Without edges if it is no cycle: the transaction that saw it, and the other one, if there is one.
	text  string // Of no cycle; other stands for the other transaction.
}

// Result is what was found. Left counts the anomalies that are not listed.
type Result struct {
	Anomalies []Anomaly
	Left      int
	Judged    int // Transactions that committed.
	Reads     int // Reads of those that promise anything of reads.
}

// other stands for the name of the other transaction in a text.
const other = "{other}"

// most bounds the anomalies of one kind that are listed.
const most = 64

// mostUnread bounds the edges to appends that nobody read, of one version.
const mostUnread = 16

// element is one append.
type element struct {
	key, value  int64
	txn         int32
	at          int32 // Its position in the order of its key, from 1; 0 if nobody read it.
	superseded  bool  // The transaction appended to the key again.
	nextElement int32 // The next one in the chain of its hash.
}

// list is what is known of one key.
type list struct {
	key    int64
	values []int64 // The longest read.
	by     int32   // Who read it.
	order  []int32 // The elements of values; -1 for one that nobody wrote.
	unread []int32 // Committed elements that are not in it, in the order of the ends of their transactions.
	late   int32   // Who read it and began last; -1 is nobody.
	broken bool    // Reads contradict each other, so it tells no order.
}

// missed is a read that is sound in itself.
type missed struct {
	txn, node int32
	key       int64
	seen      int  // The elements that others had put there.
	misses    bool // What it did not see counts, whenever that was committed.
}

type judge struct {
	txns   []Txn
	result Result
	counts map[string]int

	elements []element
	buckets  []int32
	keys     map[int64]int32
	lists    []list
	seen     []bool // By transaction: an element of it was read.
	sound    []missed

	graph
}

// Judge judges transactions of a single server, which promises that who began after another one had ended sees what
// that one wrote. It fails if an element is appended twice.
func Judge(txns []Txn) (Result, error) {
	j := &judge{txns: txns, counts: map[string]int{}, keys: map[int64]int32{},
		seen: make([]bool, len(txns))}
	if err := j.index(); err != nil {
		return Result{}, err
	}
	j.longest()
	j.others()
	j.orders()
	j.graph.nodes = 2 * len(txns)
	for i := range txns {
		j.reads(int32(i))
	}
	j.versions()
	for _, read := range j.sound {
		j.conflicts(read)
	}
	j.ends()
	j.cycles()
	return j.result, nil
}

// find returns the element of a value, or -1.
func (j *judge) find(key, value int64) int32 {
	for e := j.buckets[j.bucket(key, value)]; e >= 0; e = j.elements[e].nextElement {
		if j.elements[e].value == value && j.elements[e].key == key {
			return e
		}
	}
	return -1
}

func (j *judge) bucket(key, value int64) uint64 {
	h := (uint64(value) ^ uint64(key)<<32) * 0x9e3779b97f4a7c15
	return (h ^ h>>29) & uint64(len(j.buckets)-1)
}

// index collects the elements and keys.
func (j *judge) index() error {
	appends := 0
	for i := range j.txns {
		for _, op := range j.txns[i].Ops {
			if op.Write {
				appends++
			}
		}
	}
	size := 16
	for size < appends {
		size *= 2
	}
	j.buckets, j.elements = slices.Repeat([]int32{-1}, size), make([]element, 0, appends)
	for i := range j.txns {
		ops := j.txns[i].Ops
		for k, op := range ops {
			if _, known := j.keys[op.Key]; !known {
				j.keys[op.Key] = int32(len(j.lists))
				j.lists = append(j.lists, list{key: op.Key, by: -1, late: -1})
			}
			if !op.Write {
				continue
			}
			if j.find(op.Key, op.Value) >= 0 {
				return fmt.Errorf("transaction %d: %d is appended to key %d twice; no element may be", i, op.Value,
					op.Key)
			}
			again := func(o history.Access) bool { return o.Write && o.Key == op.Key }
			b := j.bucket(op.Key, op.Value)
			j.elements = append(j.elements, element{key: op.Key, value: op.Value, txn: int32(i),
				superseded: slices.ContainsFunc(ops[k+1:], again), nextElement: j.buckets[b]})
			j.buckets[b] = int32(len(j.elements) - 1)
		}
	}
	return nil
}

func (j *judge) list(key int64) *list { return &j.lists[j.keys[key]] }

// believes reports whether the reads of a transaction tell of committed data.
func (j *judge) believes(t *Txn) bool {
	return t.Outcome == history.StageOK && t.Level >= ReadCommitted
}

// longest finds the longest read of every key.
func (j *judge) longest() {
	for i := range j.txns {
		t := &j.txns[i]
		if !j.believes(t) {
			continue
		}
		for _, op := range t.Ops {
			if op.Write {
				continue
			}
			j.result.Reads++
			l := j.list(op.Key)
			// Of two that are as long, whatever the order of the transactions, the same one.
			if cmp.Or(cmp.Compare(len(op.Read), len(l.values)), slices.Compare(op.Read, l.values)) > 0 {
				l.values, l.by = op.Read, int32(i)
			}
			if l.late < 0 || t.Begin > j.txns[l.late].Begin {
				l.late = int32(i)
			}
		}
	}
}

// others marks what only reads saw that contradict the longest one.
func (j *judge) others() {
	for i := range j.txns {
		if !j.believes(&j.txns[i]) {
			continue
		}
		for _, op := range j.txns[i].Ops {
			if op.Write || j.list(op.Key).begins(op.Read) {
				continue
			}
			for _, value := range op.Read {
				if e := j.find(op.Key, value); e >= 0 {
					j.seen[j.elements[e].txn] = true
				}
			}
		}
	}
}

// begins reports whether the longest read begins with another one.
func (l *list) begins(read []int64) bool {
	return len(read) <= len(l.values) && slices.Equal(read, l.values[:len(read)])
}

// orders gives every element its position, and finds the elements that were committed and never read.
func (j *judge) orders() {
	for k := range j.lists {
		l := &j.lists[k]
		l.order = make([]int32, len(l.values))
		for n, value := range l.values {
			e := j.find(l.key, value)
			l.order[n] = e
			switch {
			case e < 0:
				j.unwritten(l.by, value, l.key)
			case j.elements[e].at != 0:
				j.report(l.by, l.by, "duplicate", ReadUncommitted, "read %d in key %d twice, in %d elements", value,
					l.key, len(l.values))
				l.order[n] = -1
			default:
				j.elements[e].at = int32(n + 1)
				j.seen[j.elements[e].txn] = true
			}
		}
	}
	for i := range j.txns {
		if j.committed(int32(i)) {
			j.result.Judged++
		}
	}
	for e := range j.elements {
		el := &j.elements[e]
		if el.at != 0 || !j.committed(el.txn) {
			continue
		}
		l := j.list(el.key)
		by := &j.txns[el.txn] // One of unknown outcome may have committed after its end.
		if l.late >= 0 && by.Outcome == history.StageOK && by.End < j.txns[l.late].Begin {
			l.broken = true
			j.report(l.late, el.txn, "lost append", ReadCommitted, "read key %d without %d, which "+other+
				" had appended and committed before", el.key, el.value)
		}
		l.unread = append(l.unread, int32(e))
	}
	for k := range j.lists {
		unread := j.lists[k].unread
		slices.SortStableFunc(unread, func(a, b int32) int {
			return cmp.Compare(j.txns[j.elements[a].txn].End, j.txns[j.elements[b].txn].End)
		})
		j.lists[k].unread = unread[:min(len(unread), mostUnread)]
	}
}

// committed reports whether a transaction certainly took effect: it was acknowledged, or somebody saw it.
func (j *judge) committed(i int32) bool {
	t := &j.txns[i]
	return t.Outcome == history.StageOK || t.Outcome != history.StageFailed && j.seen[i]
}

// versions adds the edges between writers of one key.
func (j *judge) versions() {
	for k := range j.lists {
		l := &j.lists[k]
		if l.broken {
			continue
		}
		last := int32(-1)
		for _, e := range l.order {
			if e < 0 || !j.committed(j.elements[e].txn) {
				continue
			}
			if by := j.elements[e].txn; last >= 0 && by != last {
				j.add(commit(last), commit(by), WW, e)
			}
			last = j.elements[e].txn
		}
		for _, e := range l.unread {
			if by := j.elements[e].txn; last >= 0 && by != last {
				j.add(commit(last), commit(by), WW, e)
			}
		}
	}
}

// reads judges the reads of one transaction and adds their edges.
func (j *judge) reads(i int32) {
	t := &j.txns[i]
	if t.Outcome != history.StageOK {
		return
	}
	split := false
	for n := range t.Ops {
		op := &t.Ops[n]
		if op.Write {
			continue
		}
		before, own, sound := j.internal(i, n)
		if !sound || !j.known(i, op) || t.Level < ReadCommitted {
			continue
		}
		node := commit(i)
		if t.Level == RepeatableRead && !own {
			node, split = snapshot(i), true
		}
		j.sound = append(j.sound, missed{i, node, op.Key, len(before),
			t.Level == Serializable || t.Level == RepeatableRead && !own})
	}
	if split {
		j.add(snapshot(i), commit(i), program, 0)
	}
}

// internal judges a read by what the same transaction did before. It returns what others have put there, and whether
// the transaction itself had appended.
func (j *judge) internal(i int32, n int) (before []int64, own, sound bool) {
	t := &j.txns[i]
	op := &t.Ops[n]
	appended, last, since := 0, -1, 0 // Appends in all, the last read, and the appends since.
	for k, o := range t.Ops[:n] {
		switch {
		case o.Key != op.Key:
		case o.Write:
			appended++
			since++
		default:
			last, since = k, 0
		}
	}
	rest := len(op.Read)
	for k := n - 1; k >= 0 && appended > len(op.Read)-rest; k-- {
		if o := t.Ops[k]; o.Key == op.Key && o.Write {
			if rest == 0 || op.Read[rest-1] != o.Value {
				j.report(i, i, "internal", ReadUncommitted, "did not read its own %d at the end of key %d", o.Value,
					op.Key)
				return nil, true, false
			}
			rest--
		}
	}
	if last < 0 || t.Level < RepeatableRead || t.Level == RepeatableRead && appended > 0 {
		return op.Read[:rest], appended > 0, true
	}
	if first := t.Ops[last].Read; !slices.Equal(first, op.Read[:max(len(op.Read)-since, 0)]) {
		j.report(i, i, "internal", RepeatableRead, "read key %d twice, first %d and then %d elements, and had "+
			"appended %d in between", op.Key, len(first), len(op.Read), since)
		return nil, appended > 0, false
	}
	return op.Read[:rest], appended > 0, true
}

// known judges a read by the order of its key: it must be the beginning of it, of data that was committed.
func (j *judge) known(i int32, op *history.Access) bool {
	l, t := j.list(op.Key), &j.txns[i]
	fits := l.begins(op.Read)
	elements := l.order
	if !fits {
		elements = make([]int32, len(op.Read))
		for n, value := range op.Read {
			if elements[n] = j.find(op.Key, value); elements[n] < 0 {
				j.unwritten(i, value, op.Key)
				return false
			}
		}
	}
	if t.Level < ReadCommitted {
		return true
	}
	for _, e := range elements[:len(op.Read)] {
		if e < 0 {
			return false // Reported with the order.
		}
		if el := &j.elements[e]; j.txns[el.txn].Outcome == history.StageFailed {
			j.report(i, el.txn, "G1a", ReadCommitted, "read %d in key %d, which "+other+" had appended and rolled back",
				el.value, op.Key)
			return false
		}
	}
	if !fits && !j.contradicted(l) {
		at := 0
		for at < min(len(op.Read), len(l.values)) && op.Read[at] == l.values[at] {
			at++
		}
		l.broken = true
		j.report(i, l.by, "incompatible order", ReadCommitted, "read %s in key %d, where "+other+
			" read %s: one of them lost what the other one has", elementAt(op.Read, at), op.Key,
			elementAt(l.values, at))
	}
	return fits
}

// contradicted reports whether an order was told to be wrong, or has what was rolled back.
func (j *judge) contradicted(l *list) bool {
	return l.broken || slices.ContainsFunc(l.order, func(e int32) bool {
		return e < 0 || j.txns[j.elements[e].txn].Outcome == history.StageFailed
	})
}

func elementAt(values []int64, at int) string {
	if at == len(values) {
		return fmt.Sprintf("nothing as element %d", at+1)
	}
	return fmt.Sprintf("%d as element %d", values[at], at+1)
}

// conflicts adds the edges of a read.
func (j *judge) conflicts(r missed) {
	l := j.list(r.key)
	if l.broken {
		return
	}
	if r.seen > 0 {
		e := l.order[r.seen-1]
		if by := j.elements[e].txn; by != r.txn {
			if j.elements[e].superseded {
				j.report(r.txn, by, "G1b", ReadCommitted, "read key %d up to %d, which "+other+" had not yet finished",
					r.key, j.elements[e].value)
			}
			j.add(commit(by), r.node, WR, e)
		}
	}
	// No level but READ UNCOMMITTED lets a transaction miss what another one had acknowledged before it began.
	counts := func(by int32) bool {
		return r.misses || j.txns[by].Outcome == history.StageOK && j.txns[by].End < j.txns[r.txn].Begin
	}
	for _, e := range l.order[r.seen:] {
		if e >= 0 && j.committed(j.elements[e].txn) && counts(j.elements[e].txn) {
			if by := j.elements[e].txn; by != r.txn {
				j.add(r.node, commit(by), RW, e)
			}
			return // Whatever comes later comes after it.
		}
	}
	for _, e := range l.unread {
		if by := j.elements[e].txn; by != r.txn && counts(by) {
			j.add(r.node, commit(by), RW, e)
		}
	}
}

// unwritten reports a value that nobody appended.
func (j *judge) unwritten(by int32, value, key int64) {
	j.report(by, by, "unwritten", ReadUncommitted, "read %d in key %d, which nobody has appended", value, key)
}

// report adds an anomaly that is no cycle.
func (j *judge) report(i, by int32, kind string, level Level, format string, args ...any) {
	j.record(Anomaly{Kind: kind, Level: level, Cycle: []Step{{Txn: int(i)}, {Txn: int(by)}},
		text: fmt.Sprintf(format, args...)})
}

func (j *judge) record(a Anomaly) {
	if j.counts[a.Kind]++; j.counts[a.Kind] > most {
		j.result.Left++
		return
	}
	j.result.Anomalies = append(j.result.Anomalies, a)
}
