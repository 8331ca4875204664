package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/e2e/bucket"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
)

type judgeFlags struct {
	runs, shard, store string
	place              nightPlace
}

func newNightlyJudge() *cobra.Command {
	var f judgeFlags
	cmd := &cobra.Command{
		Use:   "judge RUNS|s3://BUCKET/PREFIX",
		Short: "Judge all saved runs again, or a part of them; needs no cluster",
		Long: `Judge judges every run of a --runs directory, or of what --store of a night was, with the checks of this
program. As expected is the verdict of each check that the run has. The runs stay as they are; results and pages are
written below --out. Parts, --store, merge and the exit code are those of nightly.`,
		Example: "  seatrial nightly judge runs --out judged\n" +
			"  seatrial nightly judge s3://nights/runs --shard job/64 --store s3://nights/judged --out /tmp/judged",
		Args: exactly("RUNS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.runs = args[0]
			return forJob(f.shard, f.judge(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	shardFlag(cmd, &f.shard)
	storeFlag(cmd, &f.store)
	cmd.Flags().StringVar(&f.place.root, "out", "", "write below this directory, in nightly/")
	outputFlag(cmd, &f.place.output, "runs that were not as expected")
	return cmd
}

func (f *judgeFlags) judge(ctx context.Context, stdout, stderr io.Writer) (err error) {
	i, n, err := shardOf(f.shard, os.Getenv("JOB_COMPLETION_INDEX"))
	if err != nil {
		return err
	}
	if f.place.root == "" {
		return badArguments("--out is missing: give the directory for results and pages")
	}
	if err := folderToWrite("--out", f.place.root); err != nil {
		return err
	}
	var list nightly.List
	if list.Commit, err = commitOrProgram(); err != nil {
		return err
	}
	runs, err := openRuns(ctx, f.runs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runs.close()) }()
	if f.place.remote, err = openRemote(ctx, "--store", f.store); err != nil {
		return err
	}
	if err := f.apart(runs); err != nil {
		return err
	}
	saved, err := runs.list(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(saved)) {
		list.Units = append(list.Units, nightly.SavedRun(name, saved[name], list.Build))
	}
	switch {
	case len(saved) == 0:
		return badArguments("RUNS: no run with a verdict is in %q; give a --runs directory, or what --store of a "+
			"night was", f.runs)
	case n > len(saved):
		return badArguments("--shard is %q, and there are %d runs: give at most that many parts", f.shard, len(saved))
	}
	part := list.Shards(n)[i-1]
	name := fmt.Sprintf("%d-of-%d", i, n)
	k, unlock, err := openNight(ctx, list, part, name, f.place, stderr)
	if err != nil {
		return err
	}
	defer unlock()
	known, err := k.store.Results()
	if err != nil {
		return err
	}
	const often = 10 * time.Second // There may be thousands of runs, and each page has all of them.
	shown := time.Now()
	night := nightly.Night{
		List: part, Known: known, Now: time.Now, Until: time.Now().Add(365 * 24 * time.Hour),
		Lanes: []nightly.Lane{runs},
		Tell:  func(string, ...any) {},
		Soak:  func(int) ([]nightly.Unit, error) { return nil, nil },
		Keep: func(r nightly.Result) error {
			err := k.store.Keep(r)
			if err == nil && time.Since(shown) > often {
				err, shown = k.show(ctx), time.Now()
			}
			return err
		},
	}
	return k.conclude(ctx, stdout, night.Sleep(ctx))
}

// Ahead is no time: a saved run needs no cluster.
func (r *runsAt) Ahead(nightly.Unit) time.Duration { return 0 }

// Run judges the saved run that the unit names. One of a bucket is on this host only meanwhile.
func (r *runsAt) Run(ctx context.Context, u nightly.Unit) (a nightly.Attempt, err error) {
	path := filepath.Join(r.root, filepath.FromSlash(u.Name))
	if r.bucket != nil {
		defer func() { err = errors.Join(err, os.RemoveAll(path)) }()
		if err := r.bucket.Fetch(ctx, u.Name, r.root, 5*time.Minute); err != nil {
			return a, err
		}
	}
	return judgeAgain(path, u.Name)
}

// apart refuses a place for the results that is that of the runs: there the pages of a night would be replaced.
func (f *judgeFlags) apart(runs *runsAt) error {
	out, outErr := os.Stat(f.place.root)
	in, inErr := os.Stat(f.runs)
	if runs.bucket == nil && outErr == nil && inErr == nil && os.SameFile(out, in) {
		return badArguments("--out: %q has the runs, and its nightly/ may be a night's: give another directory",
			f.place.root)
	}
	if to := f.place.remote; to != nil && runs.bucket != nil && to.Place() == runs.bucket.Place() {
		return badArguments("--store: %q has the runs, and its nightly/ may be a night's: give another prefix", f.store)
	}
	return nil
}

// judgeAgain judges a saved run and compares the verdict of each check with the one that was kept. What it returns
// depends on the name, the run and the checks alone.
func judgeAgain(path, name string) (nightly.Attempt, error) {
	var kept check.Report
	var j report.Judged
	dir, err := rundir.Open(path)
	if err == nil {
		err = dir.ReadJSON(rundir.VerdictFile, &kept)
	}
	if err == nil {
		j, err = trial.Judge(dir, trial.AllParts().Checks)
	}
	if err != nil {
		return nightly.Attempt{}, &nightly.CannotError{
			Why: "cannot be judged: " + strings.ReplaceAll(err.Error(), path, name)}
	}
	a := nightly.Attempt{
		Verdict: check.Pass, Trial: j.Report.Verdict, Why: "as it was judged before: " + string(kept.Verdict),
		Started: j.Run.Started, Seconds: j.World.Last().Sub(j.World.Begin()).Round(time.Second).Seconds(),
	}
	changed := changes(kept, j.Report)
	if len(changed) == 0 {
		return a, nil
	}
	a.Verdict, a.Check = check.Unknown, changed[0].check
	var all []string
	for _, c := range changed {
		if c.now != string(check.Unknown) {
			a.Verdict = check.Fail
		}
		all = append(all, fmt.Sprintf("%s is %s, and was %s", c.check, c.now, c.before))
	}
	a.Why = "not as it was judged before: " + strings.Join(all, "; ")
	return a, nil
}

// change is a check whose verdict is another one.
type change struct{ check, before, now string }

// changes compares two reports check by check. A check that is new and passes is no change.
func changes(before, now check.Report) []change {
	const none = "not judged"
	verdict := func(r check.Report, name string) string {
		if v := r.Of(name).Verdict; v != "" {
			return string(v)
		}
		return none
	}
	var names []string
	for _, r := range slices.Concat(before.Results, now.Results) {
		if !slices.Contains(names, r.Check) {
			names = append(names, r.Check)
		}
	}
	var out []change
	for _, name := range names {
		c := change{name, verdict(before, name), verdict(now, name)}
		if c.before != c.now && !(c.before == none && c.now == string(check.Pass)) {
			out = append(out, c)
		}
	}
	return out
}

// runsAt is where saved runs are: a directory, or a bucket whose runs are fetched one at a time into a directory.
type runsAt struct {
	root   string
	bucket *remote
}

func openRuns(ctx context.Context, place string) (*runsAt, error) {
	if !strings.HasPrefix(place, bucket.Scheme) {
		return &runsAt{root: place}, nil
	}
	b, err := openRemote(ctx, "RUNS", place)
	if err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp("", "seatrial-judge-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for runs of the bucket: %w", err)
	}
	return &runsAt{root: root, bucket: b}, nil
}

// list returns the runs that have a verdict, SCENARIO/RUN, each with a text that is another one when the length of its
// history or its verdict is; in a bucket, when the history is.
func (r *runsAt) list(ctx context.Context) (map[string]string, error) {
	if r.bucket != nil {
		return r.bucket.Runs(ctx, time.Minute)
	}
	dirs, err := rundir.List(r.root)
	saved := map[string]string{}
	for _, d := range dirs {
		verdict, readErr := d.ReadFile(rundir.VerdictFile)
		size := int64(-1)
		if info, err := os.Stat(d.File(rundir.HistoryFile)); err == nil {
			size = info.Size()
		}
		saved[runOf(d)], err = fmt.Sprint(size, " ", string(verdict)), errors.Join(err, readErr)
	}
	return saved, err
}

func (r *runsAt) close() error {
	if r.bucket == nil {
		return nil
	}
	return os.RemoveAll(r.root)
}
