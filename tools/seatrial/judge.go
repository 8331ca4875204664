package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/report/page"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
	"github.com/seatrial/seatrial/fixtures/recorded"
)

func newJudge() *cobra.Command {
	var output string
	var all bool
	cmd := &cobra.Command{
		Use: "judge RUNDIR",

		Aliases: []string{"analyze"}, // Jepsen's word.

		Short: "Judge a saved run again; needs no cluster and writes nothing",
		Long: `Judge loads the history of a run and judges it with every check. With the judges that judged the live run
the verdict is the same, byte for byte with -o json. The exit code is that of run. The plan comes from the history; if
plan.json is missing or contradicts it, that is a warning.`,
		Example: "  seatrial judge runs/latest\n  seatrial judge runs/latest -o json | diff - runs/latest/verdict.json",
		Args:    exactly("RUNDIR"),

		ValidArgsFunction: completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			j, err := load(args[0])
			if err != nil {
				return err
			}
			warn(cmd.ErrOrStderr(), j)
			if err := writeJudged(cmd.OutOrStdout(), j, args[0], output, all); err != nil {
				return err
			}
			return verdictExit(j.Report.Verdict)
		},
	}
	judgedFlags(cmd, &output, &all)
	return cmd
}

func newReport() *cobra.Command {
	var output string
	var all, open bool
	cmd := &cobra.Command{
		Use:   "report RUNDIR",
		Short: "Print the report of a saved run, or open its page; needs no cluster",
		Example: "  seatrial report runs/latest\n  seatrial report --open runs/latest\n" +
			"  seatrial report runs/latest -o html > report.html",
		Args: exactly("RUNDIR"),

		ValidArgsFunction: completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			return show(cmd, args[0], args[0], output, all, open)
		},
	}
	judgedFlags(cmd, &output, &all)
	openFlag(cmd, &open)
	return cmd
}

// show prints the report of the run at path, or opens its page.
func show(cmd *cobra.Command, path, name, output string, all, open bool) error {
	j, err := load(path)
	if err != nil {
		return err
	}
	warn(cmd.ErrOrStderr(), j)
	if open {
		return openPage(cmd.Context(), cmd.ErrOrStderr(), path, j)
	}
	return writeJudged(cmd.OutOrStdout(), j, name, output, all)
}

func openFlag(cmd *cobra.Command, open *bool) {
	cmd.Flags().BoolVar(open, "open", false, "write the page as report.html beside the run and open it in the browser")
}

// judgedFlags are the flags of the commands that print a judged run.
func judgedFlags(cmd *cobra.Command, output *string, all *bool) {
	o := outputFlag(cmd, output, "run directory", "summary", "html", "junit", "chronicle", "perfetto", "metrics",
		"annotations")
	o.Usage = "text, name (the run directory), json or yaml (the verdict), summary (for a chat message), html (a " +
		"page with a timeline), junit, chronicle (what happened to one volume, and when, in about 60 lines), " +
		"perfetto (a trace for ui.perfetto.dev), metrics (for Prometheus), or annotations (for Grafana)"
	cmd.Flags().BoolVar(all, "all", false, "in text: print each passed check on its own line and each finding with "+
		"its own timeline, and list all checksums")
}

// warn says where the files of a run contradict each other.
func warn(w io.Writer, j report.Judged) {
	for _, warning := range j.Warnings {
		say(w, "warning: %s", warning)
	}
}

func load(path string) (report.Judged, error) {
	dir, err := openRun(path)
	if err != nil {
		return report.Judged{}, err
	}
	j, err := trial.Judge(dir, trial.AllParts().Checks)
	if err != nil {
		return j, badArguments("RUNDIR %q: %w", path, err)
	}
	return j, nil
}

func openRun(path string) (*rundir.Dir, error) {
	dir, err := rundir.Open(path)
	if err != nil {
		return nil, badArguments("%w; give the path of a run directory, for example runs/latest", err)
	}
	return dir, nil
}

// writeJudged prints a run; its name is its directory.
func writeJudged(w io.Writer, j report.Judged, name, output string, all bool) error {
	o := report.Options{Color: wantsColor(w), All: all}
	switch output {
	case "summary":
		return report.WriteSummary(w, j)
	case "html":
		return page.Write(w, j)
	case "junit":
		return report.WriteJUnit(w, j)
	case "chronicle":
		return report.WriteChronicle(w, j, o)
	case "perfetto":
		return report.WriteTrace(w, j)
	case "metrics":
		return report.WriteMetrics(w, j)
	case "annotations":
		return report.WriteAnnotations(w, j)
	}
	if real, err := filepath.EvalSymlinks(name); err == nil { // What runs/latest is now.
		name = real
	}
	return writeAs(w, output, j.Report, []string{name}, func() error { return report.WriteText(w, j, o) })
}

// openPage writes the page of a run and opens it with the desktop's own program.
func openPage(ctx context.Context, stderr io.Writer, path string, j report.Judged) error {
	dir, err := rundir.Open(path)
	if err != nil {
		return err
	}
	var html bytes.Buffer
	if err := page.Write(&html, j); err != nil {
		return err
	}
	if err := dir.WriteFile(rundir.PageFile, html.Bytes()); err != nil {
		return err
	}
	file := dir.File(rundir.PageFile)
	say(stderr, "page: %s", file)
	for _, program := range []string{"xdg-open", "open"} {
		if found, err := exec.LookPath(program); err == nil {
			if err := exec.CommandContext(ctx, found, file).Run(); err != nil {
				return fmt.Errorf("open %q with %s: %w", file, program, err)
			}
			return nil
		}
	}
	return fmt.Errorf("neither xdg-open nor open is on this host; open %q in a browser", file)
}

// verdictExit is nil for PASS, otherwise an error with the verdict's exit code.
func verdictExit(v check.Verdict) error {
	switch v {
	case check.Pass:
		return nil
	case check.Fail:
		return &exitError{code: exitViolated}
	}
	return &exitError{code: exitUnknown}
}

// wantsColor reports whether w is a terminal and NO_COLOR is unset (no-color.org).
func wantsColor(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && terminal(w)
}

// say writes a message for people.
func say(w io.Writer, format string, args ...any) {
	fmt.Fprint(w, visible(fmt.Sprintf(format+"\n", args...)))
}

func newDemo() *cobra.Command {
	var output string
	var all, open bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a recorded run: two nodes on one volume, and the rows lost; needs no cluster",
		Long: `Demo judges a recorded run that is part of this program, and shows what happened to one of its volumes.
A node was cut off and its pods were force-deleted; six minutes later two MySQL servers wrote to one volume
(kubernetes/kubernetes issue 61832). The exit code is 0.`,
		Example: "  seatrial demo\n  seatrial demo --open\n  seatrial demo -o html > demo.html",
		Args:    exactly(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			dir, err := os.MkdirTemp("", "seatrial-demo-")
			if err != nil {
				return fmt.Errorf("place the recorded run: %w", err)
			}
			carried, err := fs.Sub(recorded.Demo, recorded.DemoDir)
			if err != nil {
				return err
			}
			run := filepath.Join(dir, recorded.DemoDir)
			defer func() { err = errors.Join(err, removeRun(dir, run)) }()
			if err := os.CopyFS(run, carried); err != nil {
				return fmt.Errorf("place the recorded run: %w", err)
			}
			return show(cmd, run, recorded.DemoDir, output, all, open)
		},
	}
	judgedFlags(cmd, &output, &all)
	openFlag(cmd, &open)
	cmd.Flag("output").DefValue, output = "chronicle", "chronicle"
	return cmd
}

// removeRun removes a directory with a run. A page of the run stays: a browser reads it later.
func removeRun(dir, run string) error {
	files, err := os.ReadDir(run)
	page := false
	for _, f := range files {
		if f.Name() == rundir.PageFile {
			page = true
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(run, f.Name())))
	}
	if page {
		return err
	}
	return os.RemoveAll(dir)
}
