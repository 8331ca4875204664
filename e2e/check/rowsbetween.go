package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// judgeBetween judges the reads of all rows that steps of the plan made. They are held to the same as the final one,
// and tell after which of several faults a row was lost.
func (t *table) judgeBetween(h *world.World) {
	before := map[string]history.Time{} // By instance: when the read before began.
	for _, step := range t.scene.Plan.AllSteps() {
		if step.Do != plan.ActionRead || t.scene.StepPhase(step.N).Begin == nil {
			continue
		}
		reads := gatherReads(h, history.ReadOfStep(step.N))
		for _, name := range t.scene.Instances(t.scene.ReplicasAt(step.N)) {
			f := reads[name]
			if why := f.lacks(); why != "" {
				t.ruling.unknown("%s was not read back whole in step %d: %s", name, step.N, why)
				continue
			}
			since, ok := before[name]
			if !ok {
				since = t.scene.Start
			}
			t.judgeWhole(name, step.N, f, since)
			before[name] = f.first
		}
	}
}

// judgeWhole judges one whole read of one instance.
func (t *table) judgeWhole(name string, step int, f *finalRows, since history.Time) {
	count, origin := make([]int, len(t.rows)), t.scene.Origin(name)
	t.judgeSeen(name, f, count)
	l := loss{since: since, read: history.Between(f.first, f.last.NotAfter)}
	for i := range t.rows {
		row := &t.rows[i]
		if row.key.instance != origin || row.stage != history.StageOK || row.answered.NotAfter >= f.first {
			if row.key.instance == origin && count[i] > 0 {
				row.lastSeen = max(row.lastSeen, f.first)
			}
			continue
		}
		if row.answered.NotAfter >= since {
			l.acknowledged++
		}
		switch {
		case count[i] > 0:
			row.lost, row.lastSeen = false, max(row.lastSeen, f.first)
		case !row.lost:
			row.lost = true
			l.rows = append(l.rows, row.key)
			t.judgeLost(name, row, f, fmt.Sprintf("the read of step %d", step))
			if row.breach != nil && row.breach.again == 0 {
				row.breach.step = step
			}
		}
	}
	if faults := t.scene.FaultsIn(history.Between(since, f.first)); len(faults) > 0 {
		t.ruling.note("%s: %s %s", strings.Join(faults, " and "), name, l)
	}
}

// loss is what one read of all rows has missed that the one before it had not.
type loss struct {
	since        history.Time // When the read before began.
	read         history.Span
	acknowledged int // Rows, between the two.
	rows         []rowKey
}

// String says how many rows were lost, and which, by their clients.
func (l loss) String() string {
	if len(l.rows) == 0 {
		return fmt.Sprintf("lost none of the %d rows that were acknowledged since the read before", l.acknowledged)
	}
	byClient := map[int][]int64{}
	for _, k := range l.rows {
		byClient[k.client] = append(byClient[k.client], k.seq)
	}
	var words []string
	for _, client := range slices.Sorted(maps.Keys(byClient)) {
		words = append(words, fmt.Sprintf("client %d, seq %s", client, ranges(byClient[client])))
	}
	return fmt.Sprintf("lost %d rows, of %d that were acknowledged since the read before: %s", len(l.rows),
		l.acknowledged, strings.Join(words, "; "))
}

// ranges renders numbers as "3-7, 9".
func ranges(all []int64) string {
	slices.SortFunc(all, cmp.Compare[int64])
	var words []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		if i == j {
			words = append(words, fmt.Sprint(all[i]))
		} else {
			words = append(words, fmt.Sprintf("%d-%d", all[i], all[j]))
		}
		i = j + 1
	}
	return strings.Join(words, ", ")
}
