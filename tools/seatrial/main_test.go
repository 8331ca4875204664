package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/fixtures/recorded"
)

type answer struct {
	code           int
	stdout, stderr string
}

func ask(t *testing.T, args ...string) answer {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"seatrial"}, args...), &stdout, &stderr)
	return answer{code, stdout.String(), stderr.String()}
}

// TestBadArguments: bad input is told what is wrong and what to do, ends with 254, and touches nothing.
func TestBadArguments(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(`{current-context: shop, contexts: [{name: shop, context: {cluster: c}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"rnu"}, `unknown command "rnu"; did you mean "run"?; see ` + "`seatrial --help`"},
		{[]string{"run", "smok"}, `scenario "smok" is not known; did you mean "smoke"?`},
		{[]string{"run"}, "SCENARIO is missing"},
		{[]string{"run", "smoke", "again"}, `"again" is one argument too many`},
		{[]string{"run", "smoke", "--sed", "4"}, `unknown flag --sed; did you mean "seed"?`},
		{[]string{"run", "smoke", "--seed", "x"},
			"--seed is \"x\": use a whole number from 0 to 18446744073709551615; see `seatrial run --help`"},
		{[]string{"run", "smoke", "--fault-budget", "5"}, `--fault-budget is "5": use a time with its unit`},
		{[]string{"run", "smoke", "--keep=maybe"}, `--keep is "maybe": use true or false`},
		{[]string{"serve", "--port", "70000"}, `--port is "70000": use a whole number from 0 to 65535`},
		{[]string{"plan", "import", "f", "--machine", "a=b"}, `--machine is "a=b": use a whole number`},
		{[]string{"run", "smoke", "-n", "shop"}, "--namespace is for a cluster named by --kubeconfig or --context"},
		{[]string{"heal", "--kubeconfig", config, "--cluster", "c"}, "--cluster is for a kind cluster; omit it with"},
		{[]string{"certify", "twin", "--kubeconfig", config, "--cluster", "A B"}, `"A B" is no name for a cluster`},
		{[]string{"heal", "--agent-image", "x"}, "--agent-image is for a cluster named by"},
		{[]string{"clean", "--node-selector", "a"}, "--node-selector is for a cluster named by"},
		{[]string{"plan", "smoke", "--node-selector", "a"}, "--node-selector is for a cluster named by"},
		{[]string{"run", "smoke", "--fault-nodes", "a"}, "--fault-nodes is for a cluster named by"},
		{[]string{"run", "smoke", "--kubeconfig", config, "--kubernetes-version", "v1.36.3"},
			"--kubernetes-version is for a cluster that is made"},
		{[]string{"run", "smoke", "--kubeconfig", config, "--cluster", "mine"},
			"--cluster is for a cluster that is made"},
		{[]string{"run", "smoke", "--kubeconfig", config, "--node-hook", "./nowhere"},
			`--node-hook: exec: "./nowhere"`},
		{[]string{"run", "smoke", "--cluster", "A B"}, `--cluster: "A B" is no name for a cluster; use up to 50 of`},
		{[]string{"run", "smoke", "--runs", "/dev/null"},
			`--runs "/dev/null" cannot be written to: "/dev/null" is not a directory; name another directory`},
		{[]string{"nightly", "--runs", "/dev/null/x"}, `--runs "/dev/null/x" cannot be written to`},
		{[]string{"plan", "smoke", "--kubeconfig", "/no/such/config"}, "--kubeconfig, --context: read kubeconfig"},
		{[]string{"plan", "smoke", "--kubeconfig", config, "--context", "shp"},
			`context "shp" is not in the kubeconfig (` + config + `), which has: shop`},
		{[]string{"explain", "--statefulset", "a/b", "--kubeconfig", "/dev/null"},
			"there is no current context in the kubeconfig (/dev/null), which has: none"},
		{[]string{"clean", "--cluster", ""}, "--cluster is empty; give a value, or leave it out"},
		{[]string{"heal", "--run="}, "--run is empty"},
		{[]string{"run", "smoke", "--fault-nodes", ""}, "--fault-nodes is empty"},
		{[]string{"nightly", "mrege"}, `unknown command "mrege"; did you mean "merge"?`},
		{[]string{"run", "--plan", "/no/such/plan.json"}, "/no/such/plan.json"},
		{[]string{"run", "smoke", "--plan", "plan.json"}, "give it alone"},
		{[]string{"run", "smoke", "--node-image", "bulid"}, `"bulid"`},
		{[]string{"run", "smoke", "--kubernetes-version", "latest"}, `"latest"`},
		{[]string{"run", "smoke", "--yes-context", "x"}, "--yes-context is for a cluster named by --kubeconfig"},
		{[]string{"run", "smoke", "--kubeconfig", config, "--context", "nightly"}, `context "nightly" is not in`},
		{[]string{"run", "smoke", "--kubeconfig", config}, `nothing was touched: to carry this plan out on the ` +
			`cluster of context "shop", which puts a privileged pod and a service on each of its nodes, ` +
			`add --yes-context "shop"`},
		{[]string{"run", "smoke", "--kubeconfig", config, "--yes-context", "shop-test"},
			`--yes-context is "shop-test", and the context is "shop": nothing was touched`},
		{[]string{"run", "set-node-gone", "--kubeconfig", config, "--yes-context", "shop"}, "power"},
		{[]string{"reproduce", "k8s-121937", "--workload", "w.yaml"}, "--workload goes with --case"},
		{[]string{"setup", "--save", "a", "--load", "b"}, "exclude each other"},
		{[]string{"certify", "upgrade", "--to", "v1.37.0", "--kubeconfig", config, "--yes-context", "shop"},
			"upgrade"},
		{[]string{"reproduce", "k8s-121937", "--yes-context", "x"},
			"--yes-context is for a cluster named by --kubeconfig"},
		{[]string{"setup", "--save", "."}, `--save: "." is a directory; name a file in it`},
		{[]string{"setup", "--save", "/no/such/file"}, `"/no/such" is not a directory`},
		{[]string{"agent-image"}, "FILE is missing"},
		{[]string{"data-client", "oracle"}, `"oracle" has no data client here; known: mysql`},
		{[]string{"data-client", "mysql"}, "$SEATRIAL_ADDRESS or $SEATRIAL_RUN is empty"},
		{[]string{"agent-image", ""}, "FILE is empty; name a file"},
		{[]string{"agent-image", "/dev/null"}, `FILE: "/dev/null" is no regular file`},
		{[]string{"setup", "--save", "/dev/null"}, `--save: "/dev/null" is no regular file`},
		{[]string{"agent-image", "."}, `FILE: "." is a directory; name a file in it`},
		{[]string{"agent-image", "/no/such/file"}, `FILE: "/no/such" is not a directory`},
		{[]string{"deadman"}, "ORDER is missing"},
		{[]string{"judge"}, "RUNDIR is missing"},
		{[]string{"nightly", "--lanes", "17"}, "--lanes is 17: give 1 to 16"},
		{[]string{"nightly", "--list", "--lanes", "0"}, "--lanes is 0: give 1 to 16"},
		{[]string{"nightly", "--list", "--store", "runs"}, `--store: "runs" is no place in a bucket: use s3://`},
		{[]string{"nightly", "--shard", "4/3"}, `--shard is "4/3": the part is not from 1 to 3`},
		{[]string{"nightly", "--shard", "1/2", "--label-filter", "smoke"},
			"the list has 1 units: give at most that many parts"},
		{[]string{"nightly", "--shard", "job/3"}, "JOB_COMPLETION_INDEX"},
		{[]string{"nightly", "--budget", "0"}, "--budget"},
		{[]string{"nightly", "--budget", "-1h"}, "--budget is -1h0m0s: give a time to run"},
		{[]string{"nightly", "--label-filter", "smok"}, `--label-filter "smok" selects nothing`},
		{[]string{"nightly", "--label-filter", "light &&"}, `--label-filter "light &&": Unexpected EOF. See`},
		{[]string{"list", "scenarios", "--label-filter", "(light"}, `--label-filter "(light": Mismatched '('`},
		{[]string{"list", "faults", "--label-filter", "light"}, "only they have labels"},
		{[]string{"nightly", "--kubernetes-version", "latest"}, `"latest"`},
		{[]string{"nightly", "merge"}, "DIR is missing"},
		{[]string{"nightly", "merge", "/no/such/dir"}, "/no/such/dir"},
		{[]string{"judge", "/no/such/run"}, "/no/such/run"},
		{[]string{"list", "faults", "checks"}, `"checks" is one argument too many`},
		{[]string{"list", "fault"}, `did you mean "faults"?`},
		{[]string{"list", "-o", "csv"}, `--output is "csv": give text, name, json, yaml or markdown; see`},
		{[]string{"list", "-o", "markdown"}, "output markdown is of one kind"},
		{[]string{"setup", "--yes", "--no-host-changes"}, "--yes and --no-host-changes exclude each other"},
		{[]string{"describe", "fault", "kubelet-kil"}, `did you mean "kubelet-kill"?`},
		{[]string{"describe", "fault", "x"}, "fault \"x\" is not known; see `seatrial list faults`"},
		{[]string{"describe", "faults", "kubelet-kill"}, `"faults" cannot be described; did you mean "fault"?`},
		{[]string{"nightly", "--store", "s3://b/p?endpoint=http://127.0.0.1:1"},
			`--store: "b": Bucket name cannot be shorter than 3 characters`},
		{[]string{"judge", "/dev/null"}, `open run directory: "/dev/null": not a directory; give the path of a run`},
		{[]string{"plan", "smoke", "-o", "toml"}, `--output is "toml": give text`},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			got := ask(t, tt.args...)
			if strings.HasPrefix(got.stderr, "plan ") && !slices.Contains(tt.args, config) {
				t.Errorf("a plan is shown before the refusal: %q", got.stderr)
			}
			if got.code != exitArguments {
				t.Errorf("exit code %d, want %d", got.code, exitArguments)
			}
			if !strings.Contains(got.stderr, tt.want) {
				t.Errorf("stderr %q, want %q in it", got.stderr, tt.want)
			}
			if got.stdout != "" {
				t.Errorf("stdout %q, want nothing", got.stdout)
			}
		})
	}
}

func TestPlanIsTheSameForTheSameSeed(t *testing.T) {
	args := []string{"plan", "smoke", "--seed", "42", "-o", "json"}
	first, second := ask(t, args...), ask(t, args...)
	if first.code != exitPass || first != second {
		t.Fatalf("two plans of one seed differ:\n%+v\n%+v", first, second)
	}
	p, err := plan.Decode([]byte(first.stdout))
	if err != nil {
		t.Fatal(err)
	}
	if p.Scenario != "smoke" || p.Seed != 42 || len(p.Steps) == 0 {
		t.Errorf("got scenario %q, seed %d, %d steps", p.Scenario, p.Seed, len(p.Steps))
	}
}

func TestIllegalPlanIsRefusedOnPaper(t *testing.T) {
	p := ask(t, "plan", "smoke", "--seed", "42", "-o", "json").stdout
	path := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(p, "kubelet-kill", "kubelet-kick")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"plan", "run"} {
		got := ask(t, command, "--plan", path)
		want := fmt.Sprintf("--plan %q: the plan is not legal:\n", path)
		if got.code != exitArguments || !strings.Contains(got.stderr, want) ||
			!strings.Contains(got.stderr, `kubelet-kick`) {
			t.Errorf("%s: exit code %d, stderr %q", command, got.code, got.stderr)
		}
	}
}

func TestListsAreComplete(t *testing.T) {
	for _, kind := range kinds() {
		got := ask(t, "list", kind, "-o", "json")
		var list []entry
		if err := json.Unmarshal([]byte(got.stdout), &list); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if len(list) == 0 {
			t.Errorf("%s: the list is empty", kind)
		}
		for _, e := range list {
			described := ask(t, "describe", strings.TrimSuffix(kind, "s"), e.Name)
			if described.code != exitPass || !strings.Contains(described.stdout, e.Summary) {
				t.Errorf("describe %s: %+v", e.Name, described)
			}
		}
	}
}

// TestListOfAllKinds holds that list without a word has every entry, in every form.
func TestListOfAllKinds(t *testing.T) {
	text, names := ask(t, "list").stdout, ask(t, "list", "-o", "name").stdout
	var fromJSON, fromYAML map[string][]entry
	if err := json.Unmarshal([]byte(ask(t, "list", "-o", "json").stdout), &fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(ask(t, "list", "-o", "yaml").stdout), &fromYAML); err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds() {
		want, _ := entries(kind)
		if len(fromJSON[kind]) != len(want) || len(fromYAML[kind]) != len(want) {
			t.Errorf("%s: %d entries in JSON and %d in YAML, want %d", kind, len(fromJSON[kind]), len(fromYAML[kind]),
				len(want))
		}
		for _, e := range want {
			if !strings.Contains(text, "\n"+e.Name+" ") || !strings.Contains("\n"+names, "\n"+e.Name+"\n") {
				t.Errorf("%s %s is not in the list", kind, e.Name)
			}
		}
	}
}

// TestOutput holds that every command that prints an answer prints it as text, names, JSON and YAML.
func TestOutput(t *testing.T) {
	silent := []string{"seatrial", "seatrial certify", "seatrial data-client", "seatrial deadman", "seatrial serve",
		"seatrial versions add"}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		flag := c.Flags().Lookup("output")
		if flag == nil != slices.Contains(silent, c.CommandPath()) {
			t.Errorf("%s: has -o: %t", c.CommandPath(), flag != nil)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot("seatrial"))
	latest := filepath.Join(t.TempDir(), "latest")
	run, err := filepath.Abs("../../fixtures/recorded/selftest-deleted-row-42-fail")
	if err = errors.Join(err, os.Symlink(run, latest)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ args, names string }{
		{"version", readBuild().Version}, {"versions", strings.Join(offline.KubernetesVersions(), "\n")},
		{"describe fault kubelet-kill", "kubelet-kill"}, {"list storages", "cluster\nlocal\nshareddisk"},
		{"plan smoke --seed 1", "smoke"}, {"plan import --seed 1 " + manifests + "container-kill.yaml", "chaos-mesh"},
		{"demo", recorded.DemoDir}, {"report " + latest, run}, {"explain " + latest, "seatrial-rmwq51wr53v/mysql"},
		{"nightly --list --label-filter smoke", "smoke"},
	} {
		args := strings.Fields(tc.args)
		if got := ask(t, append(args, "-o", "name")...).stdout; got != tc.names+"\n" {
			t.Errorf("%s: named %q, want %q", tc.args, got, tc.names)
		}
		asJSON, err := yaml.YAMLToJSON([]byte(ask(t, append(args, "-o", "yaml")...).stdout))
		var fromYAML, fromJSON any
		err = errors.Join(err, json.Unmarshal(asJSON, &fromYAML),
			json.Unmarshal([]byte(ask(t, append(args, "-o", "json")...).stdout), &fromJSON))
		if diff := cmp.Diff(fromJSON, fromYAML); err != nil || diff != "" {
			t.Errorf("%s: JSON and YAML (-json +yaml): %v\n%s", tc.args, err, diff)
		}
	}
}

func TestVersion(t *testing.T) {
	flag, command := ask(t, "--version"), ask(t, "version")
	if flag != command || !strings.HasPrefix(flag.stdout, "seatrial ") {
		t.Errorf("--version: %+v\nversion: %+v", flag, command)
	}
	var b build
	if err := json.Unmarshal([]byte(ask(t, "version", "-o", "json").stdout), &b); err != nil || b != readBuild() {
		t.Errorf("%+v, %v, want %+v", b, err, readBuild())
	}
}

// TestDemo shows the recorded run that the program carries, from a directory without the source tree.
func TestDemo(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	got := ask(t, "demo")
	if got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, "48 OF 1417") {
		t.Errorf("demo: %+v", got)
	}
	if got := ask(t, "demo", "-o", "html"); got.code != 0 || !strings.HasPrefix(got.stdout, "<!DOCTYPE html>") {
		t.Errorf("demo -o html: exit code %d, %.40q", got.code, got.stdout)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("PATH", temp)
	if err := os.WriteFile(filepath.Join(temp, "xdg-open"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	got = ask(t, "demo", "--open")
	left, err := filepath.Glob(filepath.Join(temp, "seatrial-demo-*", "*", "*"))
	if got.code != 0 || err != nil || len(left) != 1 || filepath.Base(left[0]) != "report.html" {
		t.Errorf("demo --open: %+v, leaves %v, %v", got, left, err)
	}
}

// TestSummary is what goes into a chat message.
func TestSummary(t *testing.T) {
	got := ask(t, "report", "-o", "summary", "../../fixtures/recorded/smoke-861908-pass").stdout
	want := "PASS  smoke, seed 861908\nbecause:   Every promise held: 16 checks, each with enough " +
		"evidence.\nreproduce: seatrial run smoke --seed 861908\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestGitHub holds that a job of GitHub Actions gets a note for each failed check, escaped, and a summary.
func TestGitHub(t *testing.T) {
	j, err := load("../../fixtures/recorded/selftest-deleted-row-42-fail")
	if err != nil {
		t.Fatal(err)
	}
	summary := filepath.Join(t.TempDir(), "summary")
	env := map[string]string{"GITHUB_STEP_SUMMARY": summary}
	tell := func() string {
		var out strings.Builder
		if err := tellGitHub(j, &out, func(name string) string { return env[name] }); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := tell(); got != "" {
		t.Errorf("elsewhere: %q", got)
	}
	env["GITHUB_ACTIONS"] = "true"
	for i := range j.Report.Results {
		if r := &j.Report.Results[i]; len(r.Findings) > 0 {
			r.Check, r.Findings[0].Sentence = "a,b:c", "100 %\n::error::lost"
		}
	}
	if got, want := tell(), "::error title=Seatrial%3A a%2Cb%3Ac::100 %25%0A::error::lost\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	text, err := os.ReadFile(summary)
	if err != nil || !strings.HasPrefix(string(text), "```text\nFAIL") ||
		!strings.HasSuffix(string(text), "--seed 42\n```\n") {
		t.Errorf("summary %q, %v", text, err)
	}
}

// TestCompletion holds that the names of scenarios, cases, entries, outputs and runs are completed.
func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("ARTIFACTS", "")
	run := "runs/smoke/20260101T000000Z-7"
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(run+"/verdict.json", []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"run", ""}, "smoke-disk"},
		{[]string{"run", ""}, "k8s-124334"},
		{[]string{"list", "faults", "-o", ""}, "markdown"},
		{[]string{"judge", ""}, "runs/latest"},
		{[]string{"report", "runs/smo"}, run},
		{[]string{"explain", ""}, run},
		{[]string{"replay", ""}, run},
		{[]string{"certify", "run", "--profile", ""}, "standard"},
		{[]string{"setup", "--database-image", ""}, "published"},
		{[]string{"heal", "--journal", ""}, "runs/latest"},
		{[]string{"plan", ""}, "set-canary-light"},
		{[]string{"reproduce", "k8s-121937", ""}, "k8s-124334"},
		{[]string{"describe", ""}, "workload"},
		{[]string{"describe", "fault", ""}, "node-partition"},
		{[]string{"list", ""}, "storages"},
	} {
		got := ask(t, append([]string{"__complete"}, tc.args...)...)
		if !strings.Contains("\n"+got.stdout, "\n"+tc.want+"\n") {
			t.Errorf("%q completes to %q, want %q in it", tc.args, got.stdout, tc.want)
		}
	}
}

func TestHelpNamesTheExitCodes(t *testing.T) {
	got := ask(t, "--help")
	for _, want := range []string{"0 PASS", "1 FAIL", "2 UNKNOWN", "254 bad arguments", "255"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("help lacks %q:\n%s", want, got.stdout)
		}
	}
}

func TestPluginSpeaksAsKubectlDoes(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), []string{"/usr/bin/kubectl-seatrial", "--help"}, &stdout, &stderr)
	if code != exitPass {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if !strings.Contains(stdout.String(), "kubectl seatrial") {
		t.Errorf("help does not speak of kubectl seatrial:\n%s", stdout.String())
	}
}

// TestWhatOthersWroteDoesNotCommandTheTerminal has control characters in what is said while a trial goes on.
func TestWhatOthersWroteDoesNotCommandTheTerminal(t *testing.T) {
	var b strings.Builder
	const hostile = "pod \x1b]0;title\x07 \u202eis\tReady\n"
	n, err := io.WriteString(plainly{&b}, hostile)
	say(&b, "%s", "a\x1b[2Jb\r")
	if n != len(hostile) || err != nil {
		t.Errorf("%d bytes of %d are written, %v", n, len(hostile), err)
	}
	if want := `pod \x1b]0;title\a \u202eis` + "\tReady\n" + `a\x1b[2Jb\r` + "\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// TestJudgeWarnsOfThePlan: judge and report say on stderr that plan.json is missing; the verdict on stdout stays.
func TestJudgeWarnsOfThePlan(t *testing.T) {
	const recorded = "../../fixtures/recorded/smoke-861908-pass"
	path := t.TempDir()
	for _, name := range []string{"run.json", "history.jsonl.zst"} {
		data, err := os.ReadFile(filepath.Join(recorded, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(path, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := ask(t, "judge", recorded, "-o", "json")
	for _, command := range []string{"judge", "report"} {
		got := ask(t, command, path, "-o", "json")
		if got.code != exitPass || got.stdout != want.stdout ||
			!strings.HasPrefix(got.stderr, "warning: plan.json is missing") {
			t.Errorf("%s: code %d, stderr %q, the same verdict: %t", command, got.code, got.stderr,
				got.stdout == want.stdout)
		}
	}
	if want.stderr != "" {
		t.Errorf("stderr %q for a run with a plan.json", want.stderr)
	}
}
