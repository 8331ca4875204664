package trial

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
)

const (
	// nearBy is how far from the first finding a line of a log may be.
	nearBy = 10 * time.Second
	// mostLogs is how many lines a report has at most.
	mostLogs = 200
	// mostKubelet is how many lines of kubelets a page has at most.
	mostKubelet = 2000
	// longestLine is how much of a line there is in a page, in bytes.
	longestLine = 400
)

// klogLine and journalLine are the beginnings of what Kubernetes' programs and journalctl write, both in UTC.
var (
	klogLine    = regexp.MustCompile(`\b([IWEF])(\d{4} \d\d:\d\d:\d\d\.\d{6}) `)
	journalLine = regexp.MustCompile(`^([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S+ `)
	objectName  = regexp.MustCompile(`[A-Za-z0-9][-._A-Za-z0-9]*[A-Za-z0-9]`)
	kubeletLine = regexp.MustCompile(`\bkubelet\[\d+\]: [IWEF]\d{4} [\d:.]+ +\d+ (.*)`)
)

// logsNear returns the lines from around the first finding that are warnings or errors, or name what it is about.
func logsNear(dir *rundir.Dir, j report.Judged) ([]string, error) {
	first := report.Summarize(j).First
	if first == nil {
		return nil, nil
	}
	at := j.Run.Started.Add(first.Span.NotBefore.Sub(j.World.Begin()))
	about := slices.DeleteFunc(strings.Fields(first.Subject), func(w string) bool { return !strings.Contains(w, "-") })
	type line struct {
		at   time.Time
		text string
	}
	var near []line
	err := dir.Logs(func(node, source, text string) {
		t, severe := stamp(text, at)
		named := slices.ContainsFunc(about, func(w string) bool { return strings.Contains(text, w) })
		if (severe || named) && t.Sub(at).Abs() <= nearBy {
			near = append(near, line{t, fmt.Sprintf("%+.3f s  %s %s: %s", t.Sub(j.Run.Started).Seconds(), node, source,
				strings.TrimSpace(journalLine.ReplaceAllString(text, "")))})
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(near, func(a, b line) int { return a.at.Compare(b.at) })
	if left := len(near) - mostLogs; left > 0 { // Those next to the finding stay.
		slices.SortStableFunc(near, func(a, b line) int { return cmp.Compare(a.at.Sub(at).Abs(), b.at.Sub(at).Abs()) })
		near = near[:mostLogs]
		slices.SortStableFunc(near, func(a, b line) int { return a.at.Compare(b.at) })
		near = append(near, line{text: fmt.Sprintf("(%d more lines are in nodes/)", left)})
	}
	var lines []string
	for _, l := range near {
		lines = append(lines, l.text)
	}
	return lines, nil
}

// kubeletLines returns the lines of kubelets that name a volume of the run, by its name or its handle at the CSI
// driver. Of too many, those next to the first finding stay, or next to the end; left is how many others there are.
func kubeletLines(dir *rundir.Dir, j report.Judged) (lines []report.LogLine, left int, err error) {
	volumes := map[string]string{}
	for _, v := range j.World.Volumes().All {
		volumes[v.Handle] = v.Name
		volumes[v.Name] = v.Name
	}
	lasted := j.World.Last().Sub(j.World.Begin())
	err = dir.Logs(func(node, _, text string) {
		said := kubeletLine.FindStringSubmatch(text)
		if said == nil {
			return
		}
		names := objectName.FindAllString(said[1], -1)
		i := slices.IndexFunc(names, func(name string) bool { return volumes[name] != "" })
		t, _ := stamp(text, j.Run.Started)
		if at := t.Sub(j.Run.Started); i >= 0 && at >= 0 && at <= lasted {
			lines = append(lines, report.LogLine{Node: node, At: at, Volume: volumes[names[i]],
				Text: said[1][:min(len(said[1]), longestLine)]})
		}
	})
	focus := lasted
	if first := report.Summarize(j).First; first != nil {
		focus = first.Span.NotBefore.Sub(j.World.Begin())
	}
	slices.SortStableFunc(lines, func(a, b report.LogLine) int {
		return cmp.Compare((a.At - focus).Abs(), (b.At - focus).Abs())
	})
	left = max(0, len(lines)-mostKubelet)
	lines = lines[:len(lines)-left]
	slices.SortStableFunc(lines, func(a, b report.LogLine) int { return cmp.Compare(a.At, b.At) })
	return lines, left, err
}

// stamp returns when a line was written, the zero time if it does not say, and whether it is a warning or an error. A
// line names no year: it is from within half a year of near.
func stamp(text string, near time.Time) (at time.Time, severe bool) {
	layout, found := "2006 0102 15:04:05.000000", klogLine.FindStringSubmatch(text)
	if found == nil {
		if found = journalLine.FindStringSubmatch(text); found == nil {
			return time.Time{}, false
		}
		layout, found = "2006 Jan _2 15:04:05", []string{"", "I", found[1]}
	}
	at, err := time.Parse(layout, fmt.Sprintf("%d %s", near.Year(), found[2]))
	if err != nil {
		return time.Time{}, false
	}
	const halfYear = 183 * 24 * time.Hour
	if from := at.Sub(near); from.Abs() > halfYear {
		years := 1
		if from > 0 {
			years = -1
		}
		at = at.AddDate(years, 0, 0)
	}
	return at, found[1] != "I"
}
