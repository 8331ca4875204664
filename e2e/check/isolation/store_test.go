package isolation_test

import (
	"math/rand/v2"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check/isolation"
)

// store is a database in memory that keeps what InnoDB promises at each level: appends are of the newest version, under
// a lock until the end; SERIALIZABLE locks what it reads; a conflict aborts who comes second.
type store struct {
	r       *rand.Rand
	now     history.Time
	commits int
	rows    map[int64]*row
}

type row struct {
	values  []int64
	commit  []int // Of each value, the number of its commit.
	writer  *running
	pending []int64
	readers []*running
}

type running struct {
	txn      isolation.Txn
	todo     int
	snapshot int // The number of the last commit that it sees; -1 before its first read.
	locked   []int64
}

// histories are made with these clients, keys and operations of a transaction.
type size struct{ txns, clients, keys, ops, perKey int }

// simulate returns the transactions of clients at once, in the order of their ends. Level chooses each one's.
func simulate(r *rand.Rand, n size, level func() isolation.Level) []isolation.Txn {
	s := &store{r: r, rows: map[int64]*row{}}
	work := make([]*running, n.clients)
	done := make([]isolation.Txn, 0, n.txns)
	value := int64(0)
	for len(done) < n.txns {
		c := r.IntN(n.clients)
		s.now++
		t := work[c]
		if t == nil {
			work[c] = &running{txn: isolation.Txn{Level: level(), Begin: s.now}, todo: 1 + r.IntN(n.ops), snapshot: -1}
			continue
		}
		stage := history.StageOK
		if t.todo > 0 {
			t.todo--
			base := value / int64(n.perKey*n.keys) * int64(n.keys)
			key := base + int64(r.IntN(n.keys))
			if r.IntN(2) == 0 {
				value++
				if s.append(t, key, value) {
					continue
				}
			} else if s.read(t, key) {
				continue
			}
			stage = history.StageFailed
		}
		end := stage
		if stage == history.StageOK && r.IntN(30) == 0 {
			end = history.StageUnknown
			stage = []history.Stage{history.StageOK, history.StageFailed}[r.IntN(2)]
		}
		if stage == history.StageOK && r.IntN(30) == 0 {
			stage, end = history.StageFailed, history.StageFailed
		}
		s.end(t, stage == history.StageOK)
		t.txn.Outcome, t.txn.End = end, s.now
		done = append(done, t.txn)
		work[c] = nil
	}
	for _, t := range work { // Those that are still open: others may have read what they wrote.
		if t != nil {
			t.txn.Outcome, t.txn.End = history.StageUnknown, s.now
			done = append(done, t.txn)
		}
	}
	return done
}

func (s *store) row(key int64) *row {
	if s.rows[key] == nil {
		s.rows[key] = &row{}
	}
	return s.rows[key]
}

func (s *store) append(t *running, key, value int64) bool {
	at := s.row(key)
	// It is recorded although it fails: the client does not know.
	t.txn.Ops = append(t.txn.Ops, history.Access{Key: key, Write: true, Value: value})
	others := slices.ContainsFunc(at.readers, func(o *running) bool { return o != t })
	if at.writer != nil && at.writer != t || others {
		return false
	}
	if at.writer == nil {
		at.writer = t
		t.locked = append(t.locked, key)
	}
	at.pending = append(at.pending, value)
	return true
}

func (s *store) read(t *running, key int64) bool {
	at := s.row(key)
	seen := len(at.values)
	switch t.txn.Level {
	case isolation.Serializable:
		if at.writer != nil && at.writer != t {
			return false
		}
		if !slices.Contains(at.readers, t) {
			at.readers = append(at.readers, t)
			t.locked = append(t.locked, key)
		}
	case isolation.RepeatableRead:
		if t.snapshot < 0 {
			t.snapshot = s.commits
		}
		for at.writer != t && seen > 0 && at.commit[seen-1] > t.snapshot {
			seen--
		}
	}
	list := slices.Clone(at.values[:seen])
	if at.writer == t || t.txn.Level == isolation.ReadUncommitted {
		list = append(list, at.pending...)
	}
	t.txn.Ops = append(t.txn.Ops, history.Access{Key: key, Read: list})
	return true
}

func (s *store) end(t *running, commit bool) {
	if commit {
		s.commits++
	}
	for _, key := range t.locked {
		at := s.row(key)
		if at.writer == t {
			for _, v := range at.pending {
				if commit {
					at.values, at.commit = append(at.values, v), append(at.commit, s.commits)
				}
			}
			at.writer, at.pending = nil, nil
		}
		at.readers = slices.DeleteFunc(at.readers, func(o *running) bool { return o == t })
	}
}
