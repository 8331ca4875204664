// Package certificate derives a Certificate from an audit and from judged runs; whoever has the same runs can derive it
// again. It is pure: no I/O, no clock.
package certificate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/world"
)

// Head cannot be derived from the runs: the signer alone vouches for it.
type Head struct {
	Issued  time.Time    `json:"issued"`           // UTC, in seconds.
	Commit  string       `json:"commit,omitempty"` // Of Seatrial; empty outside a checkout.
	Dirty   bool         `json:"dirty,omitempty"`  // The checkout had changes that are in no commit.
	Profile string       `json:"profile"`
	Cluster []string     `json:"cluster"`           // Its fingerprint before the trials; see audit.Fingerprint.
	Drift   []string     `json:"drift,omitempty"`   // What had changed in the fingerprint after them.
	Changed []string     `json:"changed,omitempty"` // Objects that had come or gone after them; see audit.Inventory.
	Audit   audit.Report `json:"audit"`
	Refused []Refused    `json:"refused,omitempty"`
	Stopped string       `json:"stopped,omitempty"` // Why trials are refused that the cluster could have carried out.
}

// Refused is a trial of the profile that was not carried out.
type Refused struct {
	Scenario string `json:"scenario"`
	Seed     uint64 `json:"seed,string"`
	Why      string `json:"why"`
}

// Certificate is a Head and what is derived from it and from the runs.
type Certificate struct {
	Head

	Verdict   check.Verdict `json:"verdict"`
	Reasons   []string      `json:"reasons,omitempty"` // Why it is not PASS.
	Promises  []Promise     `json:"promises"`
	NotJudged []NotJudged   `json:"notJudged,omitempty"`
	Faults    []Fault       `json:"faults,omitempty"`
	Runs      []Run         `json:"runs"`
}

// Promise is what the runs show of one promise.
type Promise struct {
	Check    string        `json:"check"`
	Promise  string        `json:"promise"`
	Verdict  check.Verdict `json:"verdict"` // The worst of the runs.
	Evidence int           `json:"evidence"`
	Unit     string        `json:"unit"`
	Runs     int           `json:"runs"`
}

// NotJudged is what nothing was said about.
type NotJudged struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Fault is how often a fault was planned, and how often its effect was confirmed.
type Fault struct {
	Name    string  `json:"name"`
	Planned int     `json:"planned"`
	Shown   int     `json:"shown"`
	Seconds float64 `json:"seconds"` // From injection to confirmed healing, summed up.
}

// Run is one trial, and the digests of the files that it is judged by.
type Run struct {
	Path     string            `json:"path"` // Below the directory of the runs, with slashes.
	Scenario string            `json:"scenario"`
	Seed     uint64            `json:"seed,string"`
	Verdict  check.Verdict     `json:"verdict"`
	Files    map[string]string `json:"files"` // SHA-256 in hexadecimal, by name.
}

// Judged is a run and its judgement.
type Judged struct {
	Run    // Without Verdict.
	Report check.Report
	World  *world.World
}

// Make derives a certificate with the given checks. The verdict is the worst of the audit and the runs, and UNKNOWN at
// best if the cluster changed or trials were left out.
func Make(head Head, runs []Judged, checks []check.Check) Certificate {
	c := Certificate{Head: head, Promises: []Promise{}, Runs: []Run{}}
	verdicts := []check.Verdict{head.Audit.Verdict, head.Audit.Judge()}
	if head.Audit.Verdict != check.Pass {
		c.because("audit: %s", head.Audit.Because())
	}
	for _, r := range runs {
		r.Verdict = r.Report.Verdict
		c.Runs = append(c.Runs, r.Run)
		verdicts = append(verdicts, r.Verdict)
		if r.Verdict != check.Pass {
			c.because("%s, seed %d, is %s: %s", r.Scenario, r.Seed, r.Verdict, why(r.Report))
		}
		c.addFaults(r.World)
	}
	for _, in := range []struct {
		lines []string
		what  string
	}{{head.Drift, "the cluster became another one"}, {head.Changed, "objects came or went"}} {
		if len(in.lines) > 0 {
			verdicts = append(verdicts, check.Unknown)
			c.because("%s during the trials: %s", in.what, strings.Join(in.lines, "; "))
		}
	}
	if head.Stopped != "" {
		verdicts = append(verdicts, check.Unknown)
		c.because("trials were left out: %s", head.Stopped)
	}
	if len(runs) == 0 {
		verdicts = append(verdicts, check.Unknown)
		c.because("no trial was carried out")
	}
	for _, one := range checks {
		c.promise(one, runs)
	}
	for _, r := range head.Refused {
		c.NotJudged = append(c.NotJudged, NotJudged{fmt.Sprintf("%s, seed %d", r.Scenario, r.Seed), r.Why})
	}
	for _, u := range head.Audit.Unseen {
		c.NotJudged = append(c.NotJudged, NotJudged{"audit " + u.Rule, u.Why})
	}
	c.Verdict = check.Worst(verdicts...)
	return c
}

func (c *Certificate) because(format string, args ...any) {
	c.Reasons = append(c.Reasons, fmt.Sprintf(format, args...))
}

// why returns the first violation of a report, or else the first reason for UNKNOWN.
func why(r check.Report) string {
	for _, res := range r.Results {
		if res.Verdict == check.Fail && len(res.Findings) > 0 {
			return res.Findings[0].Sentence
		}
	}
	for _, res := range r.Results {
		if res.Verdict == check.Unknown && r.Verdict != check.Fail && len(res.Reasons) > 0 {
			return res.Check + ": " + res.Reasons[0]
		}
	}
	return "no check says why"
}

// promise adds the results of one check.
func (c *Certificate) promise(one check.Check, runs []Judged) {
	p := Promise{Check: one.Name, Promise: one.Promise, Unit: one.Unit}
	var verdicts []check.Verdict
	for _, r := range runs {
		if res := r.Report.Of(one.Name); res.Verdict != "" {
			verdicts = append(verdicts, res.Verdict)
			p.Evidence += res.Evidence
			p.Runs++
		}
	}
	if p.Runs == 0 {
		c.NotJudged = append(c.NotJudged, NotJudged{one.Name, "no trial has what this promise is about: " +
			one.Promise})
		return
	}
	p.Verdict = check.Worst(verdicts...)
	c.Promises = append(c.Promises, p)
}

// addFaults counts the faults of a run.
func (c *Certificate) addFaults(w *world.World) {
	t, err := w.Trial()
	if err != nil {
		return // Then no check is PASS.
	}
	for _, life := range t.Faults {
		i := slices.IndexFunc(c.Faults, func(f Fault) bool { return f.Name == life.Name })
		if i < 0 {
			i = len(c.Faults)
			c.Faults = append(c.Faults, Fault{Name: life.Name})
		}
		f := &c.Faults[i]
		f.Planned++
		if life.Facts[history.StageConfirmed] != nil && len(life.Failed) == 0 {
			f.Shown++
		}
		begin, end := life.Facts[history.StageInjected], life.Facts[history.StageConfirmedHealed]
		if begin != nil && end != nil {
			f.Seconds += end.Span.NotAfter.Sub(begin.Span.NotBefore).Round(time.Millisecond).Seconds()
		}
	}
}

// Answer is the certificate in one sentence.
func (c Certificate) Answer() string {
	version := c.Audit.From + " to " + c.Audit.To
	if strings.HasPrefix(c.Audit.From, c.Audit.To+".") {
		version = "within " + c.Audit.To
	}
	switch c.Verdict {
	case check.Pass:
		return fmt.Sprintf("Upgrade %s: nothing in the way was found, and %d promises held in %d trials; %d "+
			"things were not judged.", version, len(c.Promises), len(c.Runs), len(c.NotJudged))
	case check.Fail:
		return fmt.Sprintf("Upgrade %s: no. %s", version, c.first())
	case check.Unknown:
	}
	return fmt.Sprintf("Upgrade %s: not shown. %s", version, c.first())
}

// first is the reason to read first.
func (c Certificate) first() string {
	if len(c.Reasons) == 0 {
		return "No reason is given."
	}
	i := max(0, slices.IndexFunc(c.Reasons, func(r string) bool {
		return strings.Contains(r, "is FAIL") || strings.HasPrefix(r, "audit") && c.Audit.Verdict == check.Fail
	}))
	return strings.ToUpper(c.Reasons[i][:1]) + c.Reasons[i][1:]
}

// Subject is the digest of the fingerprint of a cluster, SHA-256 in hexadecimal.
func Subject(cluster []string) string {
	sum := sha256.Sum256([]byte(strings.Join(cluster, "\n")))
	return hex.EncodeToString(sum[:])
}

// Checks returns the names of all checks in the certificate, judged or not.
func (c Certificate) Checks() []string {
	var names []string
	for _, p := range c.Promises {
		names = append(names, p.Check)
	}
	for _, n := range c.NotJudged {
		names = append(names, n.What)
	}
	return names
}

// Differ lists what a signed certificate says otherwise than one derived again from its runs. Prose is not compared:
// that of another version may differ.
func Differ(signed, made Certificate) []string {
	var out []string
	differ := func(what string, a, b any) {
		if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
			out = append(out, fmt.Sprintf("%s: signed is %s, and judged again it is %s", what, x, y))
		}
	}
	shown := func(p Promise) string {
		return fmt.Sprintf("%s with %d %s in %d trials", p.Verdict, p.Evidence, p.Unit, p.Runs)
	}
	differ("verdict", signed.Verdict, made.Verdict)
	for _, p := range signed.Promises {
		i := slices.IndexFunc(made.Promises, func(q Promise) bool { return q.Check == p.Check })
		if i < 0 {
			out = append(out, "promise "+p.Check+": no run is judged by it")
			continue
		}
		differ("promise "+p.Check, shown(p), shown(made.Promises[i]))
	}
	differ("number of promises", len(signed.Promises), len(made.Promises))
	differ("faults", signed.Faults, made.Faults)
	differ("runs", signed.Runs, made.Runs)
	return out
}
