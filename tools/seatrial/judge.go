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
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
			if err := writeJudged(cmd.OutOrStdout(), j, output, all); err != nil {
				return err
			}
			return verdictExit(j.Report.Verdict)
		},
	}
	outputFlag(cmd, &output, "text", "json", "yaml", "summary", "html", "junit", "chronicle", "perfetto", "metrics",
		"annotations")
	allFlag(cmd, &all)
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
			return show(cmd, args[0], output, all, open)
		},
	}
	showFlags(cmd, &output, &all, &open)
	return cmd
}

// show prints the report of the run at path, or opens its page.
func show(cmd *cobra.Command, path, output string, all, open bool) error {
	j, err := load(path)
	if err != nil {
		return err
	}
	warn(cmd.ErrOrStderr(), j)
	if open {
		return openPage(cmd.Context(), cmd.ErrOrStderr(), path, j)
	}
	return writeJudged(cmd.OutOrStdout(), j, output, all)
}

// showFlags are the flags of the commands that show a run.
func showFlags(cmd *cobra.Command, output *string, all, open *bool) {
	o := outputFlag(cmd, output, "text", "summary", "html", "json", "yaml", "junit", "chronicle", "perfetto", "metrics",
		"annotations")
	o.Usage = "text, summary (for a chat message), html (a page with a timeline), json or yaml (the verdict), junit, " +
		"chronicle (what happened to one volume, and when, in about 60 lines), perfetto (a trace for " +
		"ui.perfetto.dev), metrics (for Prometheus), or annotations (for Grafana)"
	cmd.Flags().BoolVar(open, "open", false, "write the page as report.html beside the run and open it in the browser")
	allFlag(cmd, all)
}

func allFlag(cmd *cobra.Command, all *bool) {
	cmd.Flags().BoolVar(all, "all", false, "in text: print each passed check on its own line and each finding with "+
		"its own timeline, and list all checksums")
}

// warn says where the files of a run contradict each other.
func warn(w io.Writer, j report.Judged) {
	for _, warning := range j.Warnings {
		say(w, "warning: %s", warning)
	}
}

// choice is the value of a flag that takes one of some words.
type choice struct {
	value *string
	words []string
}

func (c choice) String() string {
	if c.value == nil { // As pflag asks for the zero value.
		return ""
	}
	return *c.value
}

func (c choice) Type() string { return "string" }

func (c choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("output %q is not known; give %s", word, listed(c.words))
	}
	*c.value = word
	return nil
}

// listed joins words as in a sentence.
func listed(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// outputFlag adds the flag that says how to print; the first word is the default.
func outputFlag(cmd *cobra.Command, output *string, words ...string) *pflag.Flag {
	*output = words[0]
	flag := cmd.Flags().VarPF(choice{output, words}, "output", "o", listed(words))
	completeFlag(cmd, "output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	return flag
}

func load(path string) (report.Judged, error) {
	dir, err := rundir.Open(path)
	if err != nil {
		return report.Judged{}, badArguments("%w; give the path of a run directory, for example runs/latest", err)
	}
	return trial.Judge(dir, trial.AllParts().Checks)
}

func writeJudged(w io.Writer, j report.Judged, output string, all bool) error {
	o := report.Options{Color: wantsColor(w), All: all}
	switch output {
	case "text":
		return report.WriteText(w, j, o)
	case "summary":
		return report.WriteSummary(w, j)
	case "json":
		return report.WriteVerdict(w, j.Report)
	case "yaml":
		return writeYAML(w, func(w io.Writer) error { return report.WriteVerdict(w, j.Report) })
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
	return page.Write(w, j)
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
			return show(cmd, run, output, all, open)
		},
	}
	showFlags(cmd, &output, &all, &open)
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
