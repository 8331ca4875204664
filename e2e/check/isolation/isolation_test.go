package isolation_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check/isolation"
)

const (
	ru  = isolation.ReadUncommitted
	rc  = isolation.ReadCommitted
	rr  = isolation.RepeatableRead
	ser = isolation.Serializable
)

// levels are those that a promise is tried at.
var levels = []isolation.Level{ru, rc, rr, ser}

func app(key, value int64) history.Access { return history.Access{Key: key, Write: true, Value: value} }

func read(key int64, list ...int64) history.Access { return history.Access{Key: key, Read: list} }

// at is a transaction from a begin to an end.
func at(begin, end history.Time, ops ...history.Access) isolation.Txn {
	return isolation.Txn{Outcome: history.StageOK, Begin: begin, End: end, Ops: ops}
}

// txn is a transaction at the same time as all others.
func txn(ops ...history.Access) isolation.Txn { return at(0, 1000, ops...) }

func ended(t isolation.Txn, as history.Stage) isolation.Txn {
	t.Outcome = as
	return t
}

// anomalies has what each level says of the same transactions: "" is nothing.
func anomalies() []anomaly {
	failed, open := history.StageFailed, history.StageUnknown
	return []anomaly{
		{"nothing", []isolation.Txn{txn(app(1, 1)), txn(read(1, 1)), txn(read(1))}, "", "", "", ""},
		{"own", []isolation.Txn{txn(app(1, 1), read(1, 1), app(1, 2), read(1, 1, 2))}, "", "", "", ""},
		{"own-missed", []isolation.Txn{txn(app(1, 1), read(1))}, "internal", "internal", "internal", "internal"},
		{"own-not-last", []isolation.Txn{txn(app(1, 1), app(1, 2), read(1, 2, 1))}, "internal", "internal", "internal",
			"internal"},
		{"not-repeated", []isolation.Txn{txn(app(1, 1)), txn(read(1), read(1, 1))}, "", "", "internal", "internal"},
		{"others-before-own", []isolation.Txn{txn(app(1, 1)), txn(read(1), app(1, 2), read(1, 1, 2))}, "", "", "",
			"internal"},
		{"grown-less", []isolation.Txn{txn(app(1, 1)), txn(read(1, 1), app(1, 2), read(1, 2))}, "",
			"incompatible order", "incompatible order", "incompatible order"},
		{"unwritten", []isolation.Txn{txn(app(1, 1)), txn(read(1, 9))}, "unwritten", "unwritten", "unwritten",
			"unwritten"},
		{"unwritten-short", []isolation.Txn{txn(app(1, 1), app(1, 2)), txn(read(1, 1, 2)), txn(read(1, 9))},
			"unwritten", "unwritten", "unwritten", "unwritten"},
		{"other-key", []isolation.Txn{txn(app(1, 1)), txn(read(2, 1))}, "unwritten", "unwritten", "unwritten",
			"unwritten"},
		{"duplicate", []isolation.Txn{txn(app(1, 1)), txn(read(1, 1, 1))}, "", "duplicate", "duplicate", "duplicate"},
		{"incompatible", []isolation.Txn{txn(app(1, 1)), txn(app(1, 2)), txn(read(1, 1)), txn(read(1, 2))}, "",
			"incompatible order", "incompatible order", "incompatible order"},
		{"incompatible-again", []isolation.Txn{txn(app(1, 2)), txn(app(1, 1)), txn(read(1, 1)), txn(read(1, 2))}, "",
			"incompatible order", "incompatible order", "incompatible order"},
		{"G1a", []isolation.Txn{ended(txn(app(1, 1)), failed), txn(read(1, 1))}, "", "G1a", "G1a", "G1a"},
		{"G1a-below", []isolation.Txn{ended(txn(app(1, 1)), failed), txn(app(1, 2)), txn(read(1, 1, 2)),
			txn(read(1, 2))}, "", "G1a", "G1a", "G1a"},
		{"G1b", []isolation.Txn{txn(app(1, 1), app(1, 2)), txn(read(1, 1))}, "", "G1b", "G1b", "G1b"},
		{"own-begun", []isolation.Txn{txn(app(1, 1), read(1, 1), app(1, 2)), txn(read(1, 1, 2))}, "", "", "", ""},
		{"G0", []isolation.Txn{txn(app(1, 1), app(2, 1)), txn(app(1, 2), app(2, 2)), txn(read(1, 1, 2)),
			txn(read(2, 2, 1))}, "", "G0", "G0", "G0"},
		{"G0-unread", []isolation.Txn{txn(app(1, 1), app(2, 1)), txn(app(1, 2), app(2, 2)), txn(read(1, 1)),
			txn(read(2, 2))}, "", "G0", "G0", "G0"},
		{"G1c", []isolation.Txn{txn(app(1, 1), read(2, 2)), txn(app(2, 2), read(1, 1))}, "", "G1c", "G1c", "G1c"},
		{"G1c-of-three", []isolation.Txn{txn(app(1, 1), read(3, 3)), txn(app(2, 2), read(1, 1)),
			txn(app(3, 3), read(2, 2))}, "", "G1c", "G1c", "G1c"},
		{"read-skew", []isolation.Txn{txn(app(1, 1), app(2, 2)), txn(read(1), read(2, 2))}, "", "", "G-single",
			"G-single"},
		{"read-skew-of-writer", []isolation.Txn{txn(app(1, 1), app(2, 2)), txn(read(1), read(2, 2), app(3, 3))}, "", "",
			"G-single", "G-single"},
		{"skew-after-own-write", []isolation.Txn{txn(app(1, 1), app(2, 2)), txn(read(1), app(2, 3), read(2, 2, 3))}, "",
			"", "", "G-single"},
		{"lost-update", []isolation.Txn{txn(read(1), app(1, 1)), txn(read(1), app(1, 2)), txn(read(1, 1, 2))}, "", "",
			"", "G-single (lost update)"},
		{"lost-update-unread", []isolation.Txn{txn(read(1), app(1, 1)), txn(read(1), app(1, 2)), txn(read(1, 1))}, "",
			"", "", "G-single (lost update)"},
		{"write-skew", []isolation.Txn{txn(read(1), app(2, 2)), txn(read(2), app(1, 1))}, "", "", "",
			"G2-item (write skew)"},
		{"write-skew-read", []isolation.Txn{txn(read(1), app(2, 2)), txn(read(2), app(1, 1)), txn(read(1, 1)),
			txn(read(2, 2))}, "", "", "", "G2-item (write skew)"},
		{"G2-of-three", []isolation.Txn{txn(read(1), app(2, 2)), txn(read(2), app(3, 3)), txn(read(3), app(1, 1))}, "",
			"", "", "G2-item"},
		{"long-fork", []isolation.Txn{txn(app(1, 1)), txn(app(2, 2)), txn(read(1, 1), read(2)),
			txn(read(1), read(2, 2))}, "", "", "G2-item", "G2-item"},
		{"missed-in-the-middle", []isolation.Txn{txn(app(1, 1)), txn(app(1, 2), app(2, 2)), txn(app(1, 3)),
			txn(read(1, 1, 2, 3)), txn(read(1, 1), read(2, 2))}, "", "", "G-single", "G-single"},
		{"unknown-unseen", []isolation.Txn{ended(txn(app(1, 1), app(2, 2)), open), txn(read(1), read(2))}, "", "", "",
			""},
		{"unknown-seen", []isolation.Txn{ended(txn(app(1, 1), app(2, 2)), open), txn(read(1), read(2, 2))}, "", "",
			"G-single", "G-single"},
		{"unknown-read", []isolation.Txn{txn(app(1, 1)), ended(txn(read(1, 7)), open)}, "", "", "", ""},
		{"failed-read", []isolation.Txn{txn(app(1, 1)), ended(txn(read(1, 7)), failed)}, "", "", "", ""},
		{"failed-unseen", []isolation.Txn{ended(at(0, 1, app(1, 1)), failed), at(2, 3, read(1))}, "", "", "", ""},
		{"stale", []isolation.Txn{at(0, 1, app(1, 1)), at(2, 3, read(1)), at(4, 5, read(1, 1))}, "",
			"G-single-realtime", "G-single-realtime", "G-single-realtime"},
		{"stale-behind-unknown", []isolation.Txn{ended(at(0, 1, app(1, 1)), open), at(2, 3, app(1, 2)),
			at(4, 5, read(1)), at(6, 7, read(1, 1, 2))}, "", "G-single-realtime", "G-single-realtime",
			"G-single-realtime"},
		{"stale-unread", []isolation.Txn{at(0, 1, app(1, 1)), at(2, 3, read(1))}, "", "lost append", "lost append",
			"lost append"},
		{"lost", []isolation.Txn{at(0, 1, app(1, 1)), at(0, 1, app(1, 2)), at(5, 6, read(1, 2))}, "", "lost append",
			"lost append", "lost append"},
		{"unknown-committed-late", []isolation.Txn{ended(at(0, 1, app(1, 1), app(2, 2)), open), at(2, 3, read(1)),
			at(4, 5, read(2, 2))}, "", "", "", ""},
		{"at-once", []isolation.Txn{at(0, 2, app(1, 1)), at(2, 3, read(1)), at(4, 5, read(1, 1))}, "", "", "", ""},
		{"unknown-late", []isolation.Txn{ended(at(0, 1, app(1, 1)), open), at(2, 3, read(1)), at(4, 5, read(1, 1))}, "",
			"", "", ""},
		{"future", []isolation.Txn{at(0, 1, read(1, 1)), at(2, 3, app(1, 1))}, "", "G1c-realtime", "G1c-realtime",
			"G1c-realtime"},
		{"written-backwards", []isolation.Txn{at(0, 1, app(1, 1)), at(2, 3, app(1, 2)), at(0, 9, read(1, 2, 1))}, "",
			"G0-realtime", "G0-realtime", "G0-realtime"},
		{"skew-in-time", []isolation.Txn{at(0, 9, read(1), app(2, 2)), at(1, 2, app(1, 1)), at(3, 4, read(2))}, "", "",
			"", "G2-item-realtime"},
		{"snapshot-in-time", []isolation.Txn{at(0, 1, app(2, 2)), at(2, 3, app(3, 3)), at(0, 9, read(3, 3), read(2))},
			"", "", "G-single-realtime", "G-single-realtime"},
		{"ends-between", []isolation.Txn{at(0, 1, app(1, 1)), at(1, 2, app(9, 9)), at(2, 3, app(9, 8)),
			at(4, 9, read(1)), at(5, 9, read(9, 9, 8)), at(5, 9, read(1, 1))}, "", "G-single-realtime",
			"G-single-realtime", "G-single-realtime"},
	}
}

type anomaly struct {
	name           string
	txns           []isolation.Txn
	ru, rc, rr, sr string
}

func judge(t interface{ Fatalf(string, ...any) }, txns []isolation.Txn) isolation.Result {
	res, err := isolation.Judge(txns)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return res
}

func as(level isolation.Level, txns []isolation.Txn) []isolation.Txn {
	txns = slices.Clone(txns)
	for i := range txns {
		txns[i].Level = level
	}
	return txns
}

func name(txn int) string { return fmt.Sprint("T", txn) }

func TestAnomalies(t *testing.T) {
	for _, a := range anomalies() {
		for _, level := range levels {
			t.Run(a.name+"/"+level.String(), func(t *testing.T) {
				want := []string{a.ru, a.rc, a.rr, a.sr}[level]
				res := judge(t, as(level, a.txns))
				got := ""
				if len(res.Anomalies) > 0 {
					got = res.Anomalies[0].Kind
				}
				if got != want {
					t.Fatalf("got %q, want %q: %+v", got, want, res.Anomalies)
				}
				for _, found := range res.Anomalies {
					if found.Level > level {
						t.Errorf("%s is of %s, and all are %s", found.Kind, found.Level, level)
					}
				}
			})
		}
	}
}

// TestPlanted puts each anomaly among clean transactions of all levels, in 20 places.
func TestPlanted(t *testing.T) {
	for _, a := range anomalies() {
		want := a.sr
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			clean := simulate(r, size{200, 5, 4, 4, 16}, mixed(r))
			planted := as(ser, a.txns)
			first := history.Time(r.IntN(100))
			for i := range planted {
				planted[i].Begin, planted[i].End = planted[i].Begin+first, planted[i].End+first
				planted[i].Ops = slices.Clone(planted[i].Ops)
				for k := range planted[i].Ops {
					planted[i].Ops[k].Key += 1 << 40
				}
			}
			at := r.IntN(len(clean))
			all := slices.Insert(clean, at, planted...)
			found := false
			for _, anomaly := range judge(t, all).Anomalies {
				if anomaly.Cycle[0].Txn < at || anomaly.Cycle[0].Txn >= at+len(planted) {
					t.Errorf("%s, seed %d: %s is in the clean part", a.name, seed, anomaly.Words(name))
				}
				found = found || anomaly.Kind == want
			}
			if found != (want != "") {
				t.Errorf("%s, seed %d: %q was found: %v", a.name, seed, want, found)
			}
		}
	}
}

func mixed(r *rand.Rand) func() isolation.Level {
	return func() isolation.Level { return levels[r.IntN(len(levels))] }
}

// TestClean judges 10,000 histories of a store that keeps its promises.
func TestClean(t *testing.T) {
	txns, allowed := 0, map[string]int{}
	for seed := range uint64(10_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		level := mixed(r)
		if seed%2 == 0 {
			only := level()
			level = func() isolation.Level { return only }
		}
		h := simulate(r, size{40 + r.IntN(80), 2 + r.IntN(8), 1 + r.IntN(6), 1 + r.IntN(6), 4 + r.IntN(16)}, level)
		res := judge(t, h)
		txns += res.Judged
		for _, a := range res.Anomalies {
			t.Fatalf("seed %d: false alarm of %s: %s", seed, a.Level, a.Words(name))
		}
		if seed%100 == 0 {
			for _, a := range judge(t, as(ser, h)).Anomalies {
				allowed[a.Kind]++
			}
		}
	}
	t.Logf("%d committed transactions; as SERIALIZABLE, 100 of them had %v", txns, allowed)
	for _, kind := range []string{"G1a", "G-single", "G-single (lost update)", "G2-item (write skew)", "internal"} {
		if allowed[kind] == 0 {
			t.Errorf("the store never shows %s at a level that allows it", kind)
		}
	}
}

// TestLongCycle has one cycle, over two chains of transactions and two of many reads that see the end of one chain and
// not the begin of the other: searches for a cycle with one such read follow the whole chain, and find none.
func TestLongCycle(t *testing.T) {
	const long = 2000
	var h []isolation.Txn
	value := int64(0)
	chain := func(first int64) {
		for i := range int64(long) {
			value++
			h = append(h, txn(app(first+i, value)))
			if i > 0 {
				h[len(h)-1].Ops = append(h[len(h)-1].Ops, read(first+i-1, value-1))
			}
		}
	}
	chain(10_000)
	chain(20_000)
	for range long {
		h = append(h, txn(read(10_000+long-1, long), read(20_000)), txn(read(20_000+long-1, 2*long), read(10_000)))
	}
	if res := judge(t, as(ser, h)); len(res.Anomalies) == 0 || res.Anomalies[0].Kind != "G2-item" {
		t.Errorf("%d anomalies", len(res.Anomalies))
	}
}

// TestOrderDoesNotMatter shuffles transactions: the same kinds are found in the same transactions.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 3))
		h := as(ser, simulate(r, size{60, 4, 3, 4, 8}, mixed(r)))
		again := slices.Clone(h)
		r.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		a, b := judge(t, h), judge(t, again)
		if a.Judged != b.Judged || a.Reads != b.Reads || (len(a.Anomalies) == 0) != (len(b.Anomalies) == 0) {
			t.Fatalf("%d anomalies, shuffled %d: %+v %+v", len(a.Anomalies), len(b.Anomalies), a, b)
		}
	})
}

// TestCyclesAreReal follows every cycle: each step must be so in the transactions themselves.
func TestCyclesAreReal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 4))
		h := as(ser, simulate(r, size{60, 6, 3, 4, 8}, mixed(r)))
		for _, a := range judge(t, h).Anomalies {
			for i, s := range a.Cycle {
				this, next := h[s.Txn], h[a.Cycle[(i+1)%len(a.Cycle)].Txn]
				has := func(x isolation.Txn, list, with bool) bool {
					return slices.ContainsFunc(x.Ops, func(o history.Access) bool {
						if o.Key != s.Key || o.Write == list {
							return false
						}
						return !list && o.Value == s.Value || list && slices.Contains(o.Read, s.Value) == with
					})
				}
				real := true
				switch s.Edge {
				case isolation.WW:
					real = has(next, false, true)
				case isolation.WR:
					real = has(this, false, true) && has(next, true, true)
				case isolation.RW:
					real = has(this, true, false) && has(next, false, true)
				case isolation.RealTime:
					real = this.End < next.Begin
				}
				if !real {
					t.Fatalf("step %d is not so: %s", i, a.Words(name))
				}
			}
		}
	})
}

func TestWords(t *testing.T) {
	for want, txns := range map[string][]isolation.Txn{
		"G2-item (write skew): T0 read key 1 without 1, which T1 appended; T1 read key 2 without 2, which T0 " +
			"appended: each would have to come before itself.": {txn(read(1), app(2, 2)), txn(read(2), app(1, 1))},
		"G-single-realtime: T1 read key 1 without 1, which T0 appended; T0 had ended before T1 began: each would " +
			"have to come before itself.": {at(0, 1, app(1, 1)), at(2, 3, read(1)), at(2, 3, read(1, 1))},
		"lost append: T1 read key 1 without 1, which T0 had appended and committed before.": {
			at(0, 1, app(1, 1)), at(2, 3, read(1))},
		"G1a: T1 read 1 in key 1, which T0 had appended and rolled back.": {
			ended(txn(app(1, 1)), history.StageFailed), txn(read(1, 1))},
		"incompatible order: T2 read 1 as element 1 in key 1, where T3 read 2 as element 1: one of them lost what " +
			"the other one has.": {txn(app(1, 1)), txn(app(1, 2)), txn(read(1, 1)), txn(read(1, 2))},
	} {
		res := judge(t, as(ser, txns))
		if len(res.Anomalies) == 0 || res.Anomalies[0].Words(name) != want {
			t.Errorf("want %q, got %+v", want, res.Anomalies)
		}
	}
}

// TestJudged holds that what nobody saw commit is no evidence.
func TestJudged(t *testing.T) {
	open, failed := history.StageUnknown, history.StageFailed
	for _, tt := range []struct {
		first history.Stage
		read  history.Access
		want  int
	}{
		{history.StageOK, read(1), 2}, {history.StageOK, read(1, 1), 2}, {open, read(1, 1), 2}, {open, read(1), 1},
		{failed, read(1), 1},
	} {
		res := judge(t, as(isolation.ReadCommitted, []isolation.Txn{ended(txn(app(1, 1)), tt.first), txn(tt.read)}))
		if res.Judged != tt.want {
			t.Errorf("%s, read %v: %d transactions committed, want %d", tt.first, tt.read.Read, res.Judged, tt.want)
		}
	}
}

func TestRefuses(t *testing.T) {
	_, err := isolation.Judge([]isolation.Txn{txn(app(1, 1)), txn(app(1, 1))})
	if err == nil || !strings.Contains(err.Error(), "transaction 1: 1 is appended to key 1 twice") {
		t.Errorf("error %v", err)
	}
	for _, l := range levels {
		if got, ok := isolation.ParseLevel(l.String()); !ok || got != l {
			t.Errorf("%s is parsed as %s, %v", l, got, ok)
		}
	}
	if _, ok := isolation.ParseLevel("SNAPSHOT"); ok {
		t.Error("SNAPSHOT is parsed")
	}
}

// FuzzJudge makes transactions of bytes: nothing panics, and every cycle is one.
func FuzzJudge(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 250, 251, 252})
	f.Fuzz(func(t *testing.T, data []byte) {
		var txns []isolation.Txn
		value := int64(0)
		for len(data) > 2 {
			x := isolation.Txn{Level: levels[data[0]%4], Begin: history.Time(data[1]),
				Outcome: []history.Stage{history.StageOK, history.StageOK, history.StageFailed, ""}[data[0]/4%4]}
			x.End = x.Begin + history.Time(data[2]%16)
			n := int(data[0] / 16 % 4)
			data = data[3:]
			for ; n > 0 && len(data) > 1; n-- {
				op := history.Access{Key: int64(data[0] % 3)}
				if data[0] < 128 {
					value++
					op.Write, op.Value = true, value
				} else {
					for k := range int64(data[1] % 8) {
						op.Read = append(op.Read, k*int64(1+data[0]/8%4))
					}
				}
				x.Ops, data = append(x.Ops, op), data[2:]
			}
			txns = append(txns, x)
		}
		res, err := isolation.Judge(txns)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range res.Anomalies {
			if a.Words(name) == "" || len(a.Cycle) < 2 {
				t.Errorf("%+v", a)
			}
		}
	})
}

// TestCost bounds the memory of the judge.
func TestCost(t *testing.T) {
	const n = 100_000
	for _, level := range []string{"as they ran", "as SERIALIZABLE"} {
		h := costly(n, level)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		judge(t, h)
		runtime.ReadMemStats(&after)
		if bytes := (after.TotalAlloc - before.TotalAlloc) / n; bytes > 700 {
			t.Errorf("%s: %d B allocated for each transaction, want 700 at most", level, bytes)
		}
	}
}

// costly returns transactions of all levels. As SERIALIZABLE they have thousands of anomalies.
func costly(n int, level string) []isolation.Txn {
	r := rand.New(rand.NewPCG(uint64(n), 5))
	h := simulate(r, size{n, 10, 8, 4, 32}, mixed(r))
	if level == "as SERIALIZABLE" {
		h = as(ser, h)
	}
	return h
}

// BenchmarkJudge judges transactions on one core.
func BenchmarkJudge(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, level := range []string{"as they ran", "as SERIALIZABLE"} {
		for _, n := range []int{100_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d", level, n), func(b *testing.B) {
				h := costly(n, level)
				b.ReportAllocs()
				for b.Loop() {
					judge(b, h)
				}
				b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "transactions/s")
			})
		}
	}
}
