package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onsi/ginkgo/v2/types"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/bucket"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/report/page"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
	"github.com/seatrial/seatrial/e2e/world"
)

// maxLanes is how many clusters a host could have at work at the same time, by far.
const maxLanes = 16

type nightlyFlags struct {
	run       runFlags
	budget    time.Duration
	lanes     int
	shard     string
	selection string
	list      bool
	store     string
}

func newNightly() *cobra.Command {
	var f nightlyFlags
	cmd := &cobra.Command{
		Use:   "nightly",
		Short: "Run every scenario and case that has no verdict yet, then new seeds, until the budget ends",
		Long: `Nightly runs every scenario and every case once for a commit and a Kubernetes version: first what was
not as expected in its last run, then what has not run for the longest time. Among equals, those that
can share a cluster run together, the shortest first. The rest of the budget goes to new seeds. A seed
whose outcome is not as expected is tried up to five more times. The same command with the same --runs
continues where the last one ended, however it ended. The exit code is the verdict: 0 if all outcomes
were as expected, 1 if one was certainly not, 2 if one is missing or could not be shown. A trial that
does not fit into the rest of the budget does not start; one that has started is not cut short.`,
		Example: "  seatrial nightly --budget 8h\n" +
			"  seatrial nightly --budget 1h --label-filter 'light && !node-reboot || /^smoke/'\n" +
			"  seatrial nightly --budget 2h --shard 2/7\n  seatrial nightly merge shards/*",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, i, n, err := f.parts()
			if err != nil {
				return err
			}
			part := list.Shards(n)[i-1]
			if f.list {
				return writeUnits(cmd.OutOrStdout(), part, f.run.output)
			}
			name := fmt.Sprintf("%d-of-%d", i, n)
			return forJob(f.shard, f.night(cmd.Context(), list, part, name, cmd.OutOrStdout(), cmd.ErrOrStderr()))
		},
	}
	f.run.cluster.registerImages(cmd)
	cmd.Flags().StringVar(&f.run.cluster.name, "cluster", "seatrial-nightly",
		"name of the kind clusters, one at a time; those of the second lane have -2 behind it, and so on")
	completeFlag(cmd, "cluster", completeClusters)
	cmd.Flags().DurationVar(&f.budget, "budget", 2*time.Hour, "time for this call, including making clusters")
	cmd.Flags().IntVar(&f.lanes, "lanes", max(1, min(2, runtime.NumCPU()/2)), "trials at the same time, each on a "+
		"cluster of its own; left out, 2 on a host of 4 cores or more, else 1")
	shardFlag(cmd, &f.shard)
	labelFilterFlag(cmd, &f.selection)
	cmd.Flags().StringVar(&f.run.runs, "runs", defaultRunsDir(), "parent of the run directories and of nightly/")
	storeFlag(cmd, &f.store)
	cmd.Flags().Uint64Var(&f.run.seed, "seed", 1, "seed of the list; further seeds are drawn from it and the commit")
	cmd.Flags().BoolVar(&f.list, "list", false, "print the list and touch nothing")
	outputFlag(cmd, &f.run.output, "scenarios and cases; at the end those that were not as expected")
	f.run.registerEvents(cmd)
	cmd.Flags().BoolVarP(&f.run.verbose, "verbose", "v", false, "write debug detail to harness.log")
	cmd.AddCommand(newNightlyMerge(), newNightlyJudge())
	return cmd
}

// forJob is the error of a part. In an Indexed Job it is nil for any verdict: a FAIL is a result, and a pod that does
// not end with 0 is carried out again.
func forJob(shard string, err error) error {
	exit, ok := errors.AsType[*exitError](err)
	if ok && strings.HasPrefix(shard, "job/") && (exit.code == exitViolated || exit.code == exitUnknown) {
		return nil
	}
	return err
}

func shardFlag(cmd *cobra.Command, shard *string) {
	cmd.Flags().StringVar(shard, "shard", "1/1", "part i of n, from 1 on; with job/n, i is "+
		"$JOB_COMPLETION_INDEX + 1, and the exit code is 0 for any verdict")
}

func storeFlag(cmd *cobra.Command, store *string) {
	cmd.Flags().StringVar(store, "store", "", "where results are stored too, one by one, those of a night "+
		"with their runs: s3://BUCKET/PREFIX?endpoint=URL; results that are there count as one's own")
}

// parts returns the list of the night, this shard's part of it, from 1 on, and the number of parts.
func (f *nightlyFlags) parts() (list nightly.List, i, n int, err error) {
	if f.budget <= 0 {
		return list, 0, 0, badArguments("--budget is %s: give a time to run, for example 2h", f.budget)
	}
	if f.lanes < 1 || f.lanes > maxLanes {
		return list, 0, 0, badArguments("--lanes is %d: give 1 to %d", f.lanes, maxLanes)
	}
	if f.store != "" {
		if err := bucket.Validate(f.store); err != nil {
			return list, 0, 0, badArguments("--store: %w", err)
		}
	}
	if f.run.seed == 0 {
		return list, 0, 0, badArguments("--seed is 0: give 1 or more; all shards of a night have the same seed")
	}
	if i, n, err = shardOf(f.shard, os.Getenv("JOB_COMPLETION_INDEX")); err != nil {
		return list, i, n, err
	}
	if list.Kubernetes, err = f.run.cluster.version(plan.Plan{}); err != nil {
		return list, i, n, err
	}
	list.Images = f.run.cluster.images()
	if list.Commit, err = commitOrProgram(); err != nil {
		return list, i, n, err
	}
	list.Units, err = units(list.Build, f.selection, func(string) uint64 { return f.run.seed })
	switch {
	case err != nil:
	case len(list.Units) == 0:
		err = badArguments("--label-filter %q selects nothing; see `seatrial nightly --list`", f.selection)
	case n > len(list.Units): // A part without units would end UNKNOWN.
		err = badArguments("--shard is %q, and the list has %d units: give at most that many parts", f.shard,
			len(list.Units))
	}
	return list, i, n, err
}

func shardOf(text, index string) (i, n int, err error) {
	first, second, ok := strings.Cut(text, "/")
	n, err = strconv.Atoi(second)
	if !ok || err != nil || n < 1 || n > 100_000 {
		return 0, 0, badArguments("--shard is %q: use i/n with n from 1 to 100000, or job/n", text)
	}
	if first == "job" {
		at, err := strconv.Atoi(index)
		if err != nil {
			return 0, 0, badArguments("--shard is %q, and JOB_COMPLETION_INDEX is %q: use it in an Indexed Job",
				text, index)
		}
		first = strconv.Itoa(at + 1)
	}
	if i, err = strconv.Atoi(first); err != nil || i < 1 || i > n {
		return 0, 0, badArguments("--shard is %q: the part is not from 1 to %d", text, n)
	}
	return i, n, nil
}

// commitOrProgram names the tested build: the commit, and a digest of the program if it has changes in no commit.
func commitOrProgram() (string, error) {
	b := readBuild()
	if !b.Dirty && b.Commit != "unknown" {
		return b.Commit, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return "", fmt.Errorf("read this program: %w", err)
	}
	sum := sha256.Sum256(program)
	return fmt.Sprintf("%s+%x", b.Commit, sum[:6]), nil
}

// units makes the units of all scenarios and cases that are selected.
func units(b nightly.Build, selection string, seed func(name string) uint64) ([]nightly.Unit, error) {
	selects, err := parseLabelFilter(selection)
	if err != nil {
		return nil, err
	}
	var out []nightly.Unit
	for _, c := range trial.AllParts().All() {
		u, err := nightly.NewUnit(c, b, seed(c.Name))
		if err != nil {
			return nil, err
		}
		if selects(u.Labels) {
			out = append(out, u)
		}
	}
	return out, nil
}

// labelFilterFlag adds the flag that selects by labels, in the language of Ginkgo.
func labelFilterFlag(cmd *cobra.Command, filter *string) {
	cmd.Flags().StringVarP(filter, "label-filter", "l", "",
		"only those whose labels match, in the language of Ginkgo: !, &&, ||, (), and /regexp/; the name is a label; "+
			"or as for kubectl: kind=mysql,fault=node")
}

// selector rewrites a filter of kubectl's form, in which all must hold, in Ginkgo's language; others stay as they are.
// A fault is named by its name or the begin of it: fault=node is all that strike nodes.
func selector(filter string) string {
	pair := regexp.MustCompile(`^\s*(kind|fault|storage)=([a-z0-9-]+)\s*$`)
	var all []string
	for _, word := range strings.Split(filter, ",") {
		parts := pair.FindStringSubmatch(word)
		if parts == nil {
			return filter
		}
		either := []string{parts[2]}
		for _, f := range trial.AllParts().Faults {
			if parts[1] == "fault" && strings.HasPrefix(f.Name, parts[2]+"-") {
				either = append(either, f.Name)
			}
		}
		all = append(all, "("+strings.Join(either, " || ")+")")
	}
	return strings.Join(all, " && ")
}

// parseLabelFilter reads a filter; the empty one selects all.
func parseLabelFilter(filter string) (types.LabelFilter, error) {
	selects, err := types.ParseLabelFilter(selector(filter))
	if err == nil {
		return selects, nil
	}
	why := err.Error()
	if syntax, ok := errors.AsType[types.GinkgoError](err); ok { // It is coloured, and begins with the filter.
		why = regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(strings.TrimSpace(syntax.Message), "")
		why = strings.TrimSpace(why[strings.LastIndexByte(why, '\n')+1:])
	}
	return nil, badArguments("--label-filter %q: %s See `seatrial list scenarios -o json` for labels", filter, why)
}

func writeUnits(w io.Writer, part nightly.List, output string) error {
	var text strings.Builder
	tab := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	sum, names := time.Duration(0), []string{}
	for _, u := range part.Units {
		fmt.Fprintf(tab, "%s\t%s\tseed %d\t%s\t%s\t%s\n", u.ID, u.Name, u.Seed, u.Estimate, u.Expect,
			strings.Join(u.Labels, ","))
		sum, names = sum+u.Estimate.D(), append(names, u.Name)
	}
	fmt.Fprintf(tab, "%d units, about %s without clusters\n", len(part.Units), sum)
	return errors.Join(tab.Flush(), writeAs(w, output, part, names, written(w, &text)))
}

// night carries out the part and returns the exit code. It is refused before anything is touched while another harness
// has the cluster.
func (f *nightlyFlags) night(
	ctx context.Context, list, part nightly.List, name string, stdout, stderr io.Writer,
) error {
	begin := time.Now()
	if err := f.run.check(); err != nil {
		return err
	}
	names := f.clusters()
	for _, cluster := range names {
		if err := unused(cluster); err != nil {
			return err
		}
	}
	store, err := openRemote(ctx, "--store", f.store)
	if err != nil {
		return err
	}
	k, unlock, err := openNight(ctx, list, part, name, nightPlace{f.run.runs, store, f.run.output}, stderr)
	if err != nil {
		return err
	}
	defer unlock()
	plans := make([]plan.Plan, len(part.Units))
	for i, u := range part.Units { // Only the storages are common; workers and version are those of each unit.
		plans[i].Workload = u.Plan.Workload
	}
	m, err := f.run.cluster.options(ctx, stderr, plans...)
	if err != nil {
		return err
	}
	known, err := knownResults(f.run.runs, k.store, list.Build)
	if err != nil {
		return err
	}
	n := nightly.Night{
		List: part, Known: known, Now: time.Now, Until: begin.Add(f.budget),
		Tell: func(format string, args ...any) { say(stderr, format, args...) },
		Keep: func(r nightly.Result) error {
			if err := k.store.Keep(r); err != nil {
				return err
			}
			return k.show(ctx)
		},
		Soak: func(round int) ([]nightly.Unit, error) { return f.soak(part, round) },
	}
	runners := make([]*nightRunner, len(names))
	for i, cluster := range names {
		runners[i] = &nightRunner{
			options: m, kubernetes: m.KubernetesVersion, flags: f.run, stderr: stderr, making: 90 * time.Second,
		}
		runners[i].options.ClusterName = cluster
		if len(names) > 1 {
			runners[i].stderr = laneWriter{stderr, cluster}
			runners[i].options.Progress = runners[i].stderr
		}
		n.Lanes = append(n.Lanes, runners[i])
	}
	nightErr := n.Sleep(ctx)
	trials, clusters := 0, 0
	for _, r := range runners {
		r.leave(ctx)
		trials, clusters = trials+r.trials, clusters+r.clusters
	}
	took := time.Since(begin)
	say(stderr, "%d trials on %d clusters in %s: %.0f per hour", trials, clusters, took.Round(time.Second),
		float64(trials)/took.Hours())
	return k.conclude(ctx, stdout, nightErr)
}

func (f *nightlyFlags) clusters() []string {
	names := []string{f.run.cluster.name}
	for i := 2; i <= f.lanes; i++ {
		names = append(names, fmt.Sprintf("%s-%d", names[0], i))
	}
	return names
}

// nightPlace is where a night writes: a directory, perhaps a bucket too, and standard output in some form.
type nightPlace struct {
	root   string
	remote *remote
	output string
}

// keeper keeps the results of a part of a list.
type keeper struct {
	list, part nightly.List
	place      nightPlace
	store      rundir.Night
	stderr     io.Writer
}

// openNight opens the place of a night. It is refused before anything is touched while another night has the part.
func openNight(
	ctx context.Context, list, part nightly.List, name string, place nightPlace, stderr io.Writer,
) (k keeper, unlock func(), err error) {
	k = keeper{list: list, part: part, place: place, store: rundir.OpenNight(place.root), stderr: stderr}
	unlock, err = k.store.Begin(list, name)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return k, nil, badArguments("%w; wait for it, or give another directory", err)
	}
	if err != nil {
		return k, nil, err
	}
	if err := k.place.remote.begin(ctx, k.store); err != nil {
		unlock()
		return k, nil, err
	}
	return k, unlock, nil
}

// show makes the page, which a killed job leaves, and stores what is not stored yet.
func (k keeper) show(ctx context.Context) error {
	_, err := writeNight(k.store, k.part, []string{k.place.root})
	if err := k.place.remote.push(ctx, k.store, k.place.root, time.Minute); err != nil {
		say(k.stderr, "not stored yet: %v", err) // The next result tries again, and the end.
	}
	return err
}

// conclude writes the pages, stores what is not stored yet, and returns the exit code, or the error that ended the
// night.
func (k keeper) conclude(ctx context.Context, stdout io.Writer, nightErr error) error {
	s, err := writeNight(k.store, k.part, []string{k.place.root})
	err = errors.Join(err, k.place.remote.push(context.WithoutCancel(ctx), k.store, k.place.root, 5*time.Minute))
	whole := len(k.part.Units) == len(k.list.Units)
	if whole && err == nil {
		err = k.place.remote.publish(ctx, k.store)
	}
	if err := errors.Join(nightErr, err); err != nil {
		say(k.stderr, "page so far: %s", k.store.Path(rundir.IndexFile))
		return err
	}
	return concludeNight(stdout, k.store, s, whole, k.place.output)
}

// soak returns the units of the part with other seeds.
func (f *nightlyFlags) soak(part nightly.List, round int) ([]nightly.Unit, error) {
	mine := map[string]bool{}
	for _, u := range part.Units {
		mine[u.Name] = true
	}
	all, err := units(part.Build, "", func(name string) uint64 {
		return nightly.SoakSeed(part.Build, name, f.run.seed, round)
	})
	return slices.DeleteFunc(all, func(u nightly.Unit) bool { return !mine[u.Name] }), err
}

// knownResults returns the results that were kept, and adds the trials whose harness was killed between verdict and
// result. A trial that may have been cut short is added only if it is conclusive; otherwise it is carried out again.
func knownResults(root string, store rundir.Night, b nightly.Build) ([]nightly.Result, error) {
	known, err := store.Results()
	if err != nil {
		return nil, err
	}
	kept, byID := map[string]bool{}, map[string]nightly.Result{}
	for _, r := range known {
		byID[r.ID] = r
		for _, a := range r.Attempts {
			kept[a.Run] = true
		}
	}
	dirs, err := rundir.List(root)
	if err != nil {
		return nil, err
	}
	for _, d := range slices.Backward(dirs) { // The oldest first.
		var run report.Run
		var judged check.Report
		at, err := d.Judged()
		err = errors.Join(err, d.ReadJSON(rundir.RunFile, &run), d.ReadJSON(rundir.VerdictFile, &judged))
		c, ok := trial.AllParts().Named(run.Scenario)
		if err != nil || !ok || run.Unit == "" || kept[runOf(d)] || !nightly.Conclusive(c, judged) ||
			run.CutShort != "" && judged.Verdict == check.Pass {
			continue
		}
		u, err := nightly.NewUnit(c, b, run.Seed)
		if err != nil {
			return nil, err
		}
		if u.ID != run.Unit {
			continue // Of another build.
		}
		r := byID[u.ID]
		r.Unit, r.Build, r.NotRun = u, b, ""
		r.Attempts = append(r.Attempts, attemptOf(u, judged, run.Started, at.Sub(run.Started), runOf(d)))
		if err := store.Keep(r); err != nil {
			return nil, err
		}
		byID[u.ID] = r
	}
	return slices.Collect(maps.Values(byID)), nil
}

// runOf names a run directory as results do.
func runOf(d *rundir.Dir) string {
	return filepath.Base(filepath.Dir(d.Path())) + "/" + filepath.Base(d.Path())
}

// attemptOf judges a trial of a unit.
func attemptOf(u nightly.Unit, r check.Report, began time.Time, took time.Duration, run string) nightly.Attempt {
	a := nightly.Attempt{
		Verdict: nightly.Judge(u.Case, r), Trial: r.Verdict, Run: run, Started: began.UTC().Round(0),
		Seconds: took.Round(100 * time.Millisecond).Seconds(),
	}
	sum := report.Summarize(report.Judged{World: world.New(history.History{}), Report: r})
	broken := r.Broken(u.Case)
	switch c := u.Case; {
	case a.Verdict == check.Pass:
		a.Why = "as expected: " + u.Expect
	case c.Control && len(broken) > 0:
		a.Check, a.Why = c.Finding.Check, "not held: "+strings.Join(broken, ", ")
	case !c.Control && c.Expect != string(check.Pass):
		a.Check = c.Finding.Check
		a.Why = fmt.Sprintf("the verdict is %s, without the finding of %s that is expected. %s", r.Verdict, a.Check,
			sum.Why)
	default:
		i := slices.IndexFunc(r.Results, func(res check.Result) bool { return res.Verdict == r.Verdict })
		if i >= 0 {
			a.Check = r.Results[i].Check
		}
		a.Why = sum.Why
	}
	return a
}

// writeNight merges what was kept and writes the pages and tables of the night. The run directories are below roots.
func writeNight(store rundir.Night, part nightly.List, roots []string) (nightly.Summary, error) {
	var results []nightly.Result
	at := map[string]string{}
	for _, root := range roots {
		kept, err := rundir.OpenNight(root).Results()
		if err != nil {
			return nightly.Summary{}, err
		}
		for _, r := range kept {
			for _, a := range r.Attempts {
				at[a.Run] = root
			}
		}
		results = append(results, kept...)
	}
	s := nightly.Merge(part, results)
	link := func(run string) string {
		to := filepath.Join(at[run], filepath.FromSlash(run), rundir.PageFile)
		if rel, err := relative(store.Path("."), to); err == nil {
			return rel
		}
		return filepath.ToSlash(to)
	}
	var junit, html, prom, markdown bytes.Buffer
	data, err := json.MarshalIndent(s, "", "  ")
	err = errors.Join(err, report.WriteNightJUnit(&junit, s), page.WriteNight(&html, s, link),
		report.WriteNightProm(&prom, s), report.WriteNightMarkdown(&markdown, s))
	if err != nil {
		return s, fmt.Errorf("render the night: %w", err)
	}
	return s, errors.Join(
		store.WriteFile(rundir.NightFile, append(data, '\n')), store.WriteFile(rundir.JUnitFile, junit.Bytes()),
		store.WriteFile(rundir.IndexFile, html.Bytes()), store.WriteFile(rundir.PromFile, prom.Bytes()),
		store.WriteFile(rundir.MarkdownFile, markdown.Bytes()))
}

// concludeNight prints what was not as expected, and the verdict last. On GitHub Actions it prints the annotations of a
// whole night: those of its shards would be shown beside them.
func concludeNight(stdout io.Writer, store rundir.Night, s nightly.Summary, whole bool, output string) error {
	if whole && output == "text" && os.Getenv("GITHUB_ACTIONS") == "true" {
		if err := report.WriteNightAnnotations(stdout, s); err != nil {
			return fmt.Errorf("print annotations: %w", err)
		}
	}
	var text strings.Builder
	var names []string
	for _, o := range s.Results {
		if o.Kind != nightly.Expected {
			say(&text, "%-8s %-8s %s: %s (%s)", o.Verdict, o.Kind, o.Title(), o.Worst().Why,
				o.Tally())
			names = append(names, o.Name)
		}
	}
	say(&text, "page:    %s\nverdict: %s, %d of %d as expected", store.Path(rundir.IndexFile), s.Verdict,
		s.Counts[nightly.Expected], s.Units+s.Soak)
	if err := writeAs(stdout, output, s, names, written(stdout, &text)); err != nil {
		return err
	}
	return verdictExit(s.Verdict)
}

func newNightlyMerge() *cobra.Command {
	var out, output string
	cmd := &cobra.Command{
		Use:   "merge DIR...|s3://BUCKET/PREFIX",
		Short: "Merge the results of shards, each a --runs directory or all in one bucket; needs no cluster",
		Long: `Merge writes junit.xml, nightly.json, nightly.prom, summary.md and index.html for all shards of one
list. It reads result files only: a unit of the list without a result in any shard is UNKNOWN. The exit code is that of
nightly. What it makes of a bucket it writes below --out, and into the bucket.`,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if len(dirs) == 0 {
				return badArguments("DIR is missing: give the --runs directory of each shard")
			}
			if out != "" {
				if err := folderToWrite("--out", out); err != nil {
					return err
				}
			}
			var bucketed *remote
			if len(dirs) == 1 && strings.HasPrefix(dirs[0], bucket.Scheme) {
				if out == "" {
					return badArguments("--out is missing: give the directory for what is made of the bucket")
				}
				var err error
				if bucketed, err = fetchNight(cmd.Context(), dirs[0], out); err != nil {
					return err
				}
				dirs[0] = out
			}
			lists := make([]nightly.List, len(dirs))
			for i, dir := range dirs {
				var err error
				if lists[i], err = rundir.OpenNight(dir).List(); err != nil {
					return badArguments("%w; give the --runs directory of each shard", err)
				}
				if lists[i].Digest() != lists[0].Digest() {
					return badArguments("%q and %q are of different lists: merge shards of one commit, one version, "+
						"the same images, one seed and one selection", dirs[0], dir)
				}
			}
			store := rundir.OpenNight(cmp.Or(out, dirs[0]))
			s, err := writeNight(store, lists[0], dirs)
			if err := errors.Join(err, bucketed.publish(cmd.Context(), store)); err != nil {
				return err
			}
			return concludeNight(cmd.OutOrStdout(), store, s, true, output)
		},
	}
	outputFlag(cmd, &output, "scenarios and cases that were not as expected")
	cmd.Flags().StringVar(&out, "out", "", "write below this directory, in nightly/ (default: the first DIR)")
	return cmd
}

// nightRunner is a lane: it carries out units one after another. They share a cluster as long as it fits the unit and
// is shown to be clean.
type nightRunner struct {
	options trial.ClusterOptions

	kubernetes string // The version of the night.
	flags      runFlags
	stderr     io.Writer

	place    *trial.Place
	making   time.Duration // How long the last cluster took; at first a usual time.
	failed   int           // Clusters in a row that could not be made.
	trials   int
	clusters int
}

// Ahead returns how long a trial of the unit waits for its cluster.
func (n *nightRunner) Ahead(u nightly.Unit) time.Duration {
	if n.fits(u) {
		return 0
	}
	return n.making
}

// fits reports whether there is a cluster with the workers, the version, the gates and the images to upgrade to of a
// unit.
func (n *nightRunner) fits(u nightly.Unit) bool {
	upgrades := u.Plan.Upgrades()
	return n.place != nil && n.options.Workers == u.Workers && n.options.KubernetesVersion == n.version(u) &&
		slices.Equal(n.options.FeatureGates, u.Plan.FeatureGates) &&
		(len(upgrades) == 0 || slices.Equal(n.options.Upgrades, upgrades))
}

// version is that of the unit's cluster: the night's, unless its plan begins with another one.
func (n *nightRunner) version(u nightly.Unit) string { return cmp.Or(u.Plan.Kubernetes, n.kubernetes) }

// Run carries a unit out once.
func (n *nightRunner) Run(ctx context.Context, u nightly.Unit) (nightly.Attempt, error) {
	if err := n.flags.validate(u.Plan); err != nil {
		return nightly.Attempt{}, &nightly.CannotError{Why: "cannot be carried out here: " + err.Error()}
	}
	if !n.fits(u) {
		n.leave(ctx)
	}
	begin := time.Now()
	if n.place == nil {
		if err := n.make(ctx, u); err != nil {
			const most = 3
			if n.failed++; n.failed == most {
				return nightly.Attempt{}, fmt.Errorf("no cluster could be made %d times in a row: %w", most, err)
			}
			if ctx.Err() != nil {
				return nightly.Attempt{}, fmt.Errorf("%s: %w", u.Title(), err)
			}
			return lostAttempt("no cluster", err, "", begin, time.Since(begin)), nil
		}
		n.failed, n.making = 0, time.Since(begin)
		begin = time.Now()
	}
	err := trial.ValidateOn(ctx, trial.AllParts(), u.Plan, n.place.Cluster)
	if _, cannot := errors.AsType[plan.FieldErrors](err); cannot {
		return nightly.Attempt{}, &nightly.CannotError{Why: "cannot be carried out here: " + err.Error()}
	}
	out, err := n.flags.trial(ctx, n.place, u.Plan, u.ID, false, n.stderr)
	n.trials++
	a, counts := outcomeOf(u, out, err, begin, time.Since(begin))
	a.Goroutines = runtime.NumGoroutine()
	if err != nil || !out.Clean || len(u.Plan.Upgrades()) > 0 {
		say(n.stderr, "the cluster is not shown to be as it was: the next trial gets a new one")
		n.leave(ctx)
	}
	if !counts {
		return a, fmt.Errorf("no attempt of %s: %w", u.Title(), errors.Join(context.Cause(ctx), err))
	}
	return a, nil
}

// outcomeOf returns the attempt that a trial is. One that was interrupted counts only if it is conclusive; of one whose
// harness failed only a FAIL is believed. Without a run directory there was no trial: the disk is full, or there is no
// right to write.
func outcomeOf(
	u nightly.Unit, out trial.Outcome, harness error, began time.Time, took time.Duration,
) (a nightly.Attempt, counts bool) {
	run, conclusive := "", false
	if out.Dir != nil {
		run = runOf(out.Dir)
		conclusive = nightly.Conclusive(u.Case, out.Report) && (harness == nil || out.Report.Verdict == check.Fail)
	}
	switch {
	case conclusive || harness == nil && !out.Interrupted:
		return attemptOf(u, out.Report, began, took, run), true
	case out.Interrupted || out.Dir == nil:
		return a, false
	}
	return lostAttempt("the harness failed", harness, run, began, took), true
}

// lostAttempt is an attempt without a verdict of its own.
func lostAttempt(what string, err error, run string, began time.Time, took time.Duration) nightly.Attempt {
	return nightly.Attempt{
		Verdict: check.Unknown, Trial: check.Unknown, Why: fmt.Sprintf("%s: %v", what, err), Run: run,
		Started: began.UTC().Round(0), Seconds: took.Round(100 * time.Millisecond).Seconds(),
	}
}

// make makes a cluster for a unit. An existing one of that name was left by a killed process and is deleted: nothing
// shows that it is clean.
func (n *nightRunner) make(ctx context.Context, u nightly.Unit) error {
	if _, _, err := deleteClusters(ctx, n.options.ClusterName, false, n.stderr); err != nil {
		return err
	}
	n.options.Workers, n.options.KubernetesVersion = u.Workers, n.version(u)
	n.options.Upgrades, n.options.FeatureGates = u.Plan.Upgrades(), u.Plan.FeatureGates
	place, err := prepare(ctx, n.options)
	if err != nil {
		return err
	}
	n.place = place
	n.clusters++
	return nil
}

// leave deletes the cluster, if there is one.
func (n *nightRunner) leave(ctx context.Context) {
	if n.place != nil {
		n.flags.leave(ctx, n.place, "", n.stderr)
		n.place = nil
	}
}
