package historytest

import "github.com/seatrial/seatrial/chaos/history"

// Inspections adds what was found when the tables of an instance, and then the file system of its volume, were looked
// over: no damage.
func (t *Trial) Inspections(instance, pv string, at float64) {
	for i, in := range []history.Inspection{
		{Tool: "CHECK TABLE", Instance: instance, Table: "quiet", Clean: true},
		{Tool: "CHECK TABLE", Instance: instance, Table: "ledger", Clean: true},
		{Tool: "e2fsck", PV: pv, Node: "worker", Clean: true},
	} {
		from := at + float64(i)/10
		t.Add(history.Event{Kind: history.KindInspection, Source: "trial",
			Span: history.Between(At(from), At(from+0.05)), Inspection: &in})
	}
}
