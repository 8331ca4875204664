package page

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/certify/certificate"
	"github.com/seatrial/seatrial/e2e/check"
)

// TestTheCertificatesPage: the answer comes first, each trial leads to its page, and nothing that a cluster is called
// is taken for markup.
func TestTheCertificatesPage(t *testing.T) {
	j := recorded(t)["smoke-861908-pass"]
	run := certificate.Run{Path: "smoke/1", Scenario: "smoke", Seed: 861908,
		Files: map[string]string{"history.jsonl.zst": "c0ffee"}}
	head := certificate.Head{
		Profile: "quick", Cluster: []string{"node <script>alert(1)</script>"},
		Audit: audit.Report{From: "v1.37.0", To: "v1.37", Verdict: check.Pass},
	}
	c := certificate.Make(head, []certificate.Judged{{Run: run, Report: j.Report, World: j.World}}, check.All())
	var b bytes.Buffer
	if err := WriteCertificate(&b, c, "certificate.json", func(r string) string { return "../" + r }); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{"Content-Security-Policy", "default-src &#39;none&#39;", `href="../smoke/1"`,
		"c0ffee", "node &lt;script&gt;", certificate.Subject(head.Cluster), "Not judged ("} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing", want)
		}
	}
	_, first, _ := strings.Cut(page, "<h1>")
	if first, _, _ = strings.Cut(first, "</h1>"); !strings.Contains(first, "PASS") ||
		!strings.Contains(first, "promises held in 1 trials") {
		t.Errorf("the first line is %q", first)
	}
	if strings.Contains(page, "<script") {
		t.Error("a script is in the page")
	}
}
