package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/check"
)

// audited is a report with every severity, and text that means something to a terminal or to Markdown.
func audited() audit.Report {
	finding := func(rule string, s audit.Severity, what string, where ...audit.Object) audit.Finding {
		return audit.Finding{Rule: rule, Severity: s, What: what, Where: where, Why: "data is lost",
			Source: "KEP-1", Fix: "mend it"}
	}
	var many []audit.Object
	for range manyObjects + 2 {
		many = append(many, audit.Object{Kind: "Pod", Namespace: "shop", Name: "mysql"})
	}
	return audit.Report{
		From: "v1.36.3", To: "v1.37", Verdict: check.Fail, Rules: []string{"nodes", "budget-blocks", "certificates"},
		Findings: []audit.Finding{
			finding("nodes", audit.Danger, "node \x1b[2J|*<b> is not Ready", audit.Object{Kind: "Node", Name: "a"}),
			finding("not-steady", audit.Warning, "many pods", many...),
			finding("feature-gates", audit.Note, strings.Repeat("SomeGate=true, ", 20)),
		},
		Unseen: []audit.Unseen{{Rule: "metrics", Why: "forbidden:\nno"}},
	}
}

func TestWriteAudit(t *testing.T) {
	var text, markdown bytes.Buffer
	if err := WriteAudit(&text, audited()); err != nil {
		t.Fatal(err)
	}
	if err := WriteAuditMarkdown(&markdown, audited()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`1. nodes: node \u001b[2J|*<b> is not Ready`, "where   Node a\n", "and 2 more", "where   the cluster",
		"verdict:   FAIL\n", "1 danger, 1 warning, 1 note, 1 not",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	for line := range strings.Lines(text.String()) {
		if len(line) > width+1 {
			t.Errorf("%d characters in a line: %q", len(line), line)
		}
	}
	rows := 0
	for line := range strings.Lines(markdown.String()) {
		if strings.HasPrefix(line, "| ") {
			rows++
			if n := strings.Count(line, " | "); n != 6 {
				t.Errorf("%d columns: %s", n+1, line)
			}
		}
	}
	if rows != 4 || !strings.Contains(markdown.String(), `\|\*&lt;b> is not Ready`) {
		t.Errorf("%d rows in\n%s", rows, markdown.String())
	}
}
