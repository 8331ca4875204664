package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/seatrial/seatrial/e2e/certify/audit"
)

// manyObjects is how many objects of a finding are listed for people; JSON has them all.
const manyObjects = 8

// WriteAudit writes for people what an audit found, at most 100 characters wide; the verdict comes last.
func WriteAudit(w io.Writer, r audit.Report) error {
	p := &page{}
	p.text("", fmt.Sprintf("Audit of a cluster of version %s, to be upgraded to %s: %d "+
		"rules", r.From, r.To, len(r.Rules)))
	number := 0
	for _, severity := range []audit.Severity{audit.Danger, audit.Warning, audit.Note} {
		p.heading(strings.ToUpper(string(severity)))
		for _, f := range r.Findings {
			if f.Severity == severity {
				number++
				p.auditFinding(number, f)
			}
		}
	}
	p.heading("NOT LOOKED AT")
	for _, u := range r.Unseen {
		p.text("  "+u.Rule+": ", u.Why)
	}
	p.blank()
	p.text("verdict:   ", string(r.Verdict))
	p.text("because:   ", r.Because())
	return p.write(w)
}

func (p *page) auditFinding(number int, f audit.Finding) {
	p.text(fmt.Sprintf("  %d. ", number), f.Rule+": "+f.What)
	const label = "     %-8s"
	p.text(fmt.Sprintf(label, "where"), where(f))
	p.text(fmt.Sprintf(label, "why"), f.Why)
	p.text(fmt.Sprintf(label, "source"), f.Source)
	p.text(fmt.Sprintf(label, "fix"), f.Fix)
}

// where names the first objects of a finding.
func where(f audit.Finding) string {
	var all []string
	for i, o := range f.Where {
		if i == manyObjects {
			all = append(all, fmt.Sprintf("and %d more", len(f.Where)-i))
			break
		}
		all = append(all, o.String())
	}
	if len(all) == 0 {
		return "the cluster"
	}
	return strings.Join(all, ", ")
}

// WriteAuditMarkdown writes an audit as a page of Markdown.
func WriteAuditMarkdown(w io.Writer, r audit.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Audit: %s\n\n%s Upgrade of %s to %s, %d rules.\n", r.Verdict, plainText(r.Because()),
		plainText(r.From), r.To, len(r.Rules))
	if len(r.Findings) > 0 {
		fmt.Fprint(&b, "\n## Findings\n\n| severity | rule | what | where | why | source | fix |\n",
			"|---|---|---|---|---|---|---|\n")
	}
	for _, f := range r.Findings {
		cells := []string{string(f.Severity), f.Rule, f.What, where(f), f.Why, f.Source, f.Fix}
		for i := range cells {
			cells[i] = plainText(cells[i])
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	if len(r.Unseen) > 0 {
		fmt.Fprint(&b, "\n## Not looked at\n\n")
	}
	for _, u := range r.Unseen {
		fmt.Fprintf(&b, "- %s: %s\n", u.Rule, plainText(u.Why))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// plainText keeps text from being read as Markdown.
func plainText(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(clean(text))
}
