package report

import (
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// awaits puts a line for everything that a step waited for and that has come: when it happened, how much later the
// harness knew of it, and how much later it went on.
func (s *story) awaits(p *page) {
	var rows []row
	for _, e := range s.world.Of(history.KindAwait) {
		a := e.Await
		happened := a.Happened.NotAfter
		rows = append(rows, row{cells: []string{
			fmt.Sprint(a.Step), a.For, "+" + seconds(happened.Sub(s.start)), late(a.Known.Sub(happened)),
			late(a.Acted.Sub(happened)), a.What,
		}})
	}
	if len(rows) == 0 {
		return
	}
	p.heading("AWAITED")
	p.table([]column{
		{"step", 0, true}, {"for", 0, false}, {"happened", 0, true}, {"known", 0, true}, {"acted", 0, true},
		{"what", 50, false},
	}, rows)
	p.text("  ", "known, acted: how long after it happened the harness knew of it, and went on")
}

// late renders how much later something was, which may be less than a millisecond.
func late(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
	}
	return seconds(d)
}
