package page

import (
	"cmp"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// parts is how many parts of equal length the time of the clients has. A screen shows about so many.
const parts = 1000

// answers is what the clients of each instance were answered.
func (d *drawer) answers(lanes map[string]*instanceLane) {
	step := (d.To - d.From) / parts
	if step <= 0 {
		return
	}
	latencies := map[string][][]float64{}
	reads := d.world.Reads(history.FinalRead)
	writers, grouped := d.finalWriters()
	for _, op := range d.world.Operations() {
		e := op.Answer
		if e == nil {
			continue
		}
		lane := lanes[cmp.Or(e.Op.By, e.Op.Instance)]
		if lane == nil {
			continue
		}
		keepers := []string{lane.Name} // Of the rows, in the end.
		if grouped {
			keepers = writers
		}
		if lane.Clients == nil {
			part := func(name string) bool { return reads[name].Lacks() != "" }
			lane.Clients = newClients(step, len(keepers) > 0 && !slices.ContainsFunc(keepers, part))
			latencies[lane.Name] = make([][]float64, parts)
		}
		c, i := lane.Clients, min(int(d.ms(e.Span.NotAfter)/step), parts-1)
		switch e.Op.Stage {
		case history.StageOK:
			lasted := ms(e.Span.Length())
			if op.Sent != nil {
				lasted = ms(e.Span.NotAfter.Sub(op.Sent.Span.NotBefore))
			}
			if lasted > c.max[i] && c.Lost[i] == 0 {
				c.Facts[i] = e.ID
			}
			latencies[lane.Name][i] = append(latencies[lane.Name][i], lasted)
			c.max[i], c.Slowest = max(c.max[i], lasted), max(c.Slowest, lasted)
			if e.Op.F == history.OpInsert {
				c.Rows++
				has := func(name string) bool { return reads[name].Has(e.Op.Client, e.Op.Seq) }
				if c.Judged && !slices.ContainsFunc(keepers, has) {
					if c.Lost[i] == 0 {
						c.Facts[i] = e.ID
					}
					c.Lost[i]++
					c.LostRows++
				}
			}
		case history.StageFailed:
			c.Failed[i]++
		case history.StageUnknown:
			c.Unknown[i]++
		}
		c.Count[i]++
		c.Facts[i] = cmp.Or(c.Facts[i], e.ID)
	}
	for name, each := range latencies {
		c := lanes[name].Clients
		for i, l := range each {
			slices.Sort(l)
			if len(l) > 0 {
				c.P50[i], c.P99[i] = l[len(l)/2], l[min(len(l)*99/100, len(l)-1)]
			}
		}
		d.see(slices.DeleteFunc(slices.Clone(c.Facts), func(id int64) bool { return id == 0 })...)
	}
}

// finalWriters returns the instances of a group that took writes in the end, and whether there is a group. Where there
// should have been one, and were more, none is returned.
func (d *drawer) finalWriters() (writers []string, grouped bool) {
	for _, e := range d.world.Of(history.KindMember) {
		if m := e.Member; m.Label == history.FinalRead {
			grouped = true
			if m.Writable {
				writers = append(writers, m.Instance)
			}
		}
	}
	if trial, err := d.world.Trial(); len(writers) > 1 && (err != nil || !trial.Plan.Workload.Multi()) {
		return nil, grouped
	}
	return writers, grouped
}

func newClients(step float64, judged bool) *clients {
	none := func() []float64 { return slices.Repeat([]float64{-1}, parts) }
	return &clients{Step: step, Judged: judged, P50: none(), P99: none(), max: none(), Count: make([]int, parts),
		Failed: make([]int, parts), Unknown: make([]int, parts), Lost: make([]int, parts), Facts: make([]int64, parts)}
}
