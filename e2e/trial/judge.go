package trial

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/report/page"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/world"
)

// Judge loads a run from disk and judges it. The live verdict comes from here too.
func Judge(dir *rundir.Dir, checks []check.Check) (report.Judged, error) {
	var j report.Judged
	if err := dir.ReadJSON(rundir.RunFile, &j.Run); err != nil {
		return j, err
	}
	if known := report.RunSchemaVersion; j.Run.Schema > known {
		return j, fmt.Errorf("%s has schema %d, and this program knows up to %d: judge it with a newer one",
			rundir.RunFile, j.Run.Schema, known)
	}
	h, err := dir.ReadHistory()
	if err != nil {
		return j, err
	}
	j.World = world.New(h)
	j.Warnings = planWarnings(dir, h)
	j.Report = check.Judge(j.World, checks)
	left := 0
	if j.Logs, err = logsNear(dir, j); err == nil {
		j.Kubelets, left, err = kubeletLines(dir, j)
	}
	if left > 0 {
		j.Warnings = append(j.Warnings, fmt.Sprintf("the page leaves out %d lines of kubelets about volumes", left))
	}
	if err != nil { // They are no part of the evidence.
		j.Warnings = append(j.Warnings, fmt.Sprintf("the logs of nodes cannot be read: %v", err))
	}
	return j, nil
}

// planWarnings compares plan.json with the plan in the history, which is the one that is judged.
func planWarnings(dir *rundir.Dir, h history.History) []string {
	const judged = "; the plan in the history is what was judged"
	i := slices.IndexFunc(h.Events, func(e history.Event) bool { return e.Kind == history.KindPlan })
	if i < 0 {
		return nil // Then every check is UNKNOWN and says why.
	}
	recorded, err := decode(h.Events[i].Plan)
	if err != nil {
		return nil // As above.
	}
	file, err := dir.ReadFile(rundir.PlanFile)
	if errors.Is(err, fs.ErrNotExist) {
		return []string{rundir.PlanFile + " is missing" + judged}
	}
	var beside any
	if err == nil {
		beside, err = decode(file)
	}
	if err != nil {
		return []string{fmt.Sprintf("%s cannot be read (%v)%s", rundir.PlanFile, err, judged)}
	}
	differences := difference("the plan", recorded, beside)
	if len(differences) == 0 {
		return nil
	}
	const shown = 3
	text := strings.Join(differences[:min(shown, len(differences))], "; ")
	if more := len(differences) - shown; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return []string{rundir.PlanFile + " contradicts the history: " + text + judged}
}

// decode reads JSON with its numbers as they are written: a seed may have more digits than a float64.
func decode(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// difference lists the fields in which two JSON values differ.
func difference(at string, recorded, beside any) []string {
	switch r := recorded.(type) {
	case map[string]any:
		b, ok := beside.(map[string]any)
		if !ok {
			break
		}
		var out []string
		both := maps.Clone(r)
		maps.Copy(both, b)
		for _, key := range slices.Sorted(maps.Keys(both)) {
			out = append(out, difference(strings.TrimPrefix(at+"."+key, "the plan."), r[key], b[key])...)
		}
		return out
	case []any:
		b, ok := beside.([]any)
		if !ok || len(b) != len(r) {
			break
		}
		var out []string
		for i := range r {
			out = append(out, difference(fmt.Sprintf("%s[%d]", at, i), r[i], b[i])...)
		}
		return out
	}
	if reflect.DeepEqual(recorded, beside) {
		return nil
	}
	return []string{fmt.Sprintf("%s is %s there and %s in the history", at, value(beside), value(recorded))}
}

// value renders a JSON value in a few characters.
func value(v any) string {
	switch v := v.(type) {
	case nil:
		return "missing"
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case map[string]any:
		return fmt.Sprintf("an object of %d fields", len(v))
	}
	return fmt.Sprintf("%.60q", fmt.Sprint(v))
}

// JudgeAndWrite judges a run and writes the verdict and the reports into its directory.
func JudgeAndWrite(dir *rundir.Dir, checks []check.Check) (check.Report, error) {
	j, err := Judge(dir, checks)
	if err != nil {
		return check.Report{Verdict: check.Unknown}, fmt.Errorf("judge %q: %w", dir.Path(), err)
	}
	var verdict, text, junit, html, metrics, annotations bytes.Buffer
	err = errors.Join(
		report.WriteVerdict(&verdict, j.Report),
		report.WriteText(&text, j, report.Options{}),
		report.WriteJUnit(&junit, j),
		page.Write(&html, j),
		report.WriteMetrics(&metrics, j),
		report.WriteAnnotations(&annotations, j),
	)
	if err != nil {
		return j.Report, fmt.Errorf("render reports of %q: %w", dir.Path(), err)
	}
	err = errors.Join(
		dir.WriteFile(rundir.VerdictFile, verdict.Bytes()),
		dir.WriteFile(rundir.ReportFile, text.Bytes()),
		dir.WriteFile(rundir.JUnitFile, junit.Bytes()),
		dir.WriteFile(rundir.PageFile, html.Bytes()),
		dir.WriteFile(rundir.MetricsFile, metrics.Bytes()),
		dir.WriteFile(rundir.GrafanaFile, annotations.Bytes()),
		writeIndex(dir),
	)
	return j.Report, err
}

// writeIndex lists the runs beside this one in a page. A run that cannot be read is left out.
func writeIndex(dir *rundir.Dir) error {
	dirs, err := rundir.List(dir.Root())
	if err != nil {
		return err
	}
	var entries []page.Entry
	for _, d := range dirs {
		var run report.Run
		var judged check.Report
		at, err := d.Judged()
		err = errors.Join(err, d.ReadJSON(rundir.RunFile, &run), d.ReadJSON(rundir.VerdictFile, &judged))
		if err != nil {
			continue
		}
		link, err := filepath.Rel(dir.Root(), d.File(rundir.PageFile))
		if err != nil {
			continue
		}
		entries = append(entries, page.Entry{
			Summary: report.Summarize(report.Judged{Run: run, World: world.New(history.History{}), Report: judged}),
			Link:    filepath.ToSlash(link), Started: run.Started.UTC().Format(time.DateTime),
			Took: at.Sub(run.Started).Round(time.Second).String(),
		})
	}
	var html bytes.Buffer
	if err := page.WriteIndex(&html, entries); err != nil {
		return err
	}
	return rundir.WriteIndex(dir.Root(), html.Bytes())
}
