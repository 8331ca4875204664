package report

import (
	"fmt"
	"io"

	"github.com/seatrial/seatrial/e2e/certify/certificate"
)

// WriteCertificate writes a certificate for people, at most 100 characters wide; the verdict comes last.
func WriteCertificate(w io.Writer, c certificate.Certificate) error {
	p := &page{}
	p.text("", fmt.Sprintf("Certificate of a cluster of version %s, profile %s, issued %s", c.Audit.From, c.Profile,
		c.Issued.Format("2006-01-02 15:04:05 UTC")))
	p.heading("AUDIT")
	for i, f := range c.Audit.Findings {
		p.text(fmt.Sprintf("  %d. ", i+1), fmt.Sprintf("%s, %s: %s", f.Severity, f.Rule, f.What))
	}
	p.heading("PROMISES")
	var rows []row
	for _, pr := range c.Promises {
		rows = append(rows, row{cells: []string{
			string(pr.Verdict), pr.Check, fmt.Sprint(pr.Runs), fmt.Sprint(pr.Evidence), pr.Unit,
		}, verdict: pr.Verdict})
	}
	p.table([]column{{"verdict", 0, false}, {"check", 0, false}, {"trials", 0, true}, {"evidence", 0, true},
		{"of", 40, false}}, rows)
	p.heading("FAULTS")
	rows = nil
	for _, f := range c.Faults {
		rows = append(rows, row{cells: []string{f.Name, fmt.Sprint(f.Planned), fmt.Sprint(f.Shown),
			fmt.Sprintf("%.0f s", f.Seconds)}})
	}
	p.table([]column{{"fault", 0, false}, {"planned", 0, true}, {"shown", 0, true}, {"hurt", 0, true}}, rows)
	p.heading("NOT JUDGED")
	for _, n := range c.NotJudged {
		p.text("  "+n.What+": ", n.Why)
	}
	p.heading("TRIALS")
	for _, r := range c.Runs {
		p.text("  ", fmt.Sprintf("%-8s %s", r.Verdict, r.Path))
	}
	p.blank()
	p.text("verdict:   ", string(c.Verdict))
	p.text("because:   ", c.Answer())
	return p.write(w)
}
