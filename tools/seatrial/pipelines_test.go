package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// pipelines returns the pipelines that docs/nightly.md offers to copy, in their order, and the Job it names.
func pipelines(t *testing.T) (github, gitlab, prow, job string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "nightly.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(found) != 3 {
		t.Fatalf("docs/nightly.md has %d pipelines, want 3", len(found))
	}
	trials, err := os.ReadFile(filepath.Join("..", "..", "examples", "job", "trials.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(found[0][1]), string(found[1][1]), string(found[2][1]), string(trials)
}

// host is a directory where shell parts run: make prints what it would do, the rest is stubs.
type host struct {
	dir string
	env []string
}

func newHost(t *testing.T, env ...string) host {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir, seatrial := t.TempDir(), `echo "seatrial $*"; exit ${CODE:-0}`
	program, err := exec.LookPath("make")
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"stubs/make": `exec ` + program + ` -n -C '` + root + `' "$@"`,
		"stubs/sudo": `[ "$1" = -E ] && shift; exec "$@"`,
		// make asks it for GOFLAGS in the folder of the project, where nothing may be written.
		"stubs/go": `echo "go $*"; [ "$1" != run ] || { mkdir -p shards/nightly &&
			echo "## PASS" > shards/nightly/summary.md; }`,
		"bin/seatrial": seatrial, "stubs/seatrial": seatrial,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := "PATH=" + filepath.Join(dir, "stubs") + ":" + os.Getenv("PATH")
	return host{dir: dir, env: append(append(os.Environ(), path, "PWD="+dir), env...)}
}

// run returns what a command prints, and its exit code.
func (h host) run(t *testing.T, argv ...string) (string, int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	c.Dir, c.Env = h.dir, h.env
	if stub := filepath.Join(h.dir, "stubs", argv[0]); !strings.Contains(argv[0], "/") {
		if _, err := os.Stat(stub); err == nil {
			c.Path = stub
		}
	}
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// calls fails the test unless out has the call of the program with these arguments, and the program accepts them.
func calls(t *testing.T, out string, code int, args string) {
	t.Helper()
	if code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), "bin/seatrial "+args) {
		t.Errorf("exit code %d, want a call with %q:\n%s", code, args, out)
	}
	if a := ask(t, append(strings.Fields(args), "--list")...); a.code != 0 {
		t.Errorf("seatrial %s --list: exit code %d: %s", args, a.code, a.stderr)
	}
}

func TestPipelinesToCopy(t *testing.T) {
	github, gitlab, prow, job := pipelines(t)
	t.Run("GitHub Actions", func(t *testing.T) {
		var workflow struct {
			Jobs map[string]struct {
				Steps []struct{ Run string }
			}
		}
		if err := yaml.Unmarshal([]byte(github), &workflow); err != nil {
			t.Fatal(err)
		}
		summary := filepath.Join(t.TempDir(), "summary")
		h := newHost(t, "GITHUB_STEP_SUMMARY="+summary)
		for _, shard := range []string{"shards/shard-1", "shards/shard-2"} {
			if err := os.MkdirAll(filepath.Join(h.dir, shard), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var printed string
		for _, name := range []string{"night", "page"} {
			for _, step := range workflow.Jobs[name].Steps {
				if step.Run == "" {
					continue
				}
				out, code := h.run(t, "bash", "-e", "-c", strings.ReplaceAll(step.Run, "${{matrix.shard}}", "3"))
				if code != 0 {
					t.Errorf("%q: exit code %d: %s", step.Run, code, out)
				}
				printed += out
			}
		}
		calls(t, printed, 0, "nightly --budget 2h --shard 3/7")
		want := "go run ./tools/seatrial nightly merge --out shards shards/shard-1 shards/shard-2"
		if !strings.Contains(printed, want) {
			t.Errorf("no %q in\n%s", want, printed)
		}
		if text, err := os.ReadFile(summary); err != nil || string(text) != "## PASS\n" {
			t.Errorf("the step's summary is %q, %v", text, err)
		}
	})
	t.Run("GitLab", func(t *testing.T) {
		var pipeline struct{ Night struct{ Script string } }
		if err := yaml.Unmarshal([]byte(gitlab), &pipeline); err != nil {
			t.Fatal(err)
		}
		out, code := newHost(t, "CI_NODE_INDEX=2", "CI_NODE_TOTAL=7").run(t, "bash", "-e", "-c", pipeline.Night.Script)
		calls(t, out, code, "nightly --budget 2h --shard 2/7")
	})
	t.Run("Prow", func(t *testing.T) {
		var config struct {
			Periodics []struct {
				Spec struct{ Containers []struct{ Command []string } }
			}
		}
		if err := yaml.Unmarshal([]byte(prow), &config); err != nil {
			t.Fatal(err)
		}
		out, code := newHost(t, "ARTIFACTS=/logs/artifacts").run(t, config.Periodics[0].Spec.Containers[0].Command...)
		calls(t, out, code, "nightly --budget 2h")
	})
	t.Run("Indexed Job", func(t *testing.T) {
		var j batchv1.Job
		if err := yaml.UnmarshalStrict([]byte(job), &j); err != nil {
			t.Fatal(err)
		}
		t.Setenv("JOB_COMPLETION_INDEX", "5") // For the program itself.
		for _, code := range []int{0, 254, 255} {
			h := newHost(t, fmt.Sprintf("CODE=%d", code))
			out, got := h.run(t, j.Spec.Template.Spec.Containers[0].Command...)
			want := "seatrial setup --yes --load /images.tar\n"
			if code == 0 {
				want += "seatrial nightly --budget 2h --shard job/64 --cluster seatrial-5 " +
					"--store s3://nights/trials?endpoint=STORE --yes\n"
			}
			if got != code || out != want {
				t.Errorf("the night ends with %d, the pod with %d:\n%s", code, got, out)
			}
		}
		if a := ask(t, "nightly", "--shard", fmt.Sprintf("job/%d", *j.Spec.Completions), "--list"); a.code != 0 {
			t.Errorf("the shard is refused: %s", a.stderr)
		}
	})
}
