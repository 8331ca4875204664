package trial

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// Judged is a run as loaded from disk, with its judgement.
type Judged struct {
	Run     report.Run
	History history.History
	Report  check.Report
}

// Judge loads a run from disk and judges it. The live verdict is this one too: there is no other way to judge.
func Judge(dir *rundir.Dir, checks []check.Check) (Judged, error) {
	var j Judged
	if err := dir.ReadJSON(rundir.RunFile, &j.Run); err != nil {
		return j, err
	}
	h, err := dir.ReadHistory()
	if err != nil {
		return j, err
	}
	j.History = h
	j.Report = check.Run(h, checks)
	return j, nil
}

// JudgeAndWrite judges a run and writes the verdict and the reports into its directory.
func JudgeAndWrite(dir *rundir.Dir, checks []check.Check) (check.Report, error) {
	j, err := Judge(dir, checks)
	if err != nil {
		return check.Report{Verdict: check.Unknown}, fmt.Errorf("judge %q: %w", dir.Path(), err)
	}
	var verdict, text, junit bytes.Buffer
	err = errors.Join(
		report.WriteVerdict(&verdict, j.Report),
		report.WriteText(&text, j.Run, j.History, j.Report, report.Options{}),
		report.WriteJUnit(&junit, j.Run, j.History, j.Report),
	)
	if err != nil {
		return j.Report, fmt.Errorf("render reports of %q: %w", dir.Path(), err)
	}
	err = errors.Join(
		dir.WriteFile(rundir.VerdictFile, verdict.Bytes()),
		dir.WriteFile(rundir.ReportFile, text.Bytes()),
		dir.WriteFile(rundir.JUnitFile, junit.Bytes()),
	)
	return j.Report, err
}
