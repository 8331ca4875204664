package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

// asProgram is set in the environment of this test binary when it is to be the program itself.
const asProgram = "SEATRIAL_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// untouched is a place to run the program in where everything that it could touch would be seen: a home of its own,
// and container engines that leave a trace when they are called.
type untouched struct{ root, home, runs, bin string }

func newUntouched(t *testing.T) untouched {
	t.Helper()
	root := t.TempDir()
	u := untouched{root, filepath.Join(root, "home"), filepath.Join(root, "runs"), filepath.Join(root, "bin")}
	for _, dir := range []string{u.home, u.bin} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"docker", "dockerd", "kind", "kubectl", "nerdctl", "podman"} {
		script := fmt.Sprintf("#!/bin/sh\necho called > '%s/called-%s'\n", root, name)
		if err := os.WriteFile(filepath.Join(u.bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// run runs the program with a plan.
func (u untouched) run(t *testing.T, text []byte) answer {
	t.Helper()
	file := filepath.Join(u.root, "plan.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return u.program(t, "run", "--plan", file, "--runs", u.runs, "--cluster", "seatrial-never")
}

// program runs the program with arguments.
func (u untouched) program(t *testing.T, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir = u.home
	cmd.Env = []string{asProgram + "=1", "HOME=" + u.home, "XDG_CACHE_HOME=" + u.home, "PATH=" + u.bin}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return answer{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// traces lists what was made.
func (u untouched) traces(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(u.root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(u.root, path) // It is below it.
		own := rel == "." || rel == "home" || rel == "plan.json" || strings.HasPrefix(rel, "bin")
		if err == nil && !own {
			found = append(found, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestIllegalPlansTouchNothing gives the program plans that must be refused, each as a process of its own: it ends with
// 254, names the field, shows nothing of the plan that a terminal would obey, and leaves nothing behind.
func TestIllegalPlansTouchNothing(t *testing.T) {
	cases := byHand(t)
	generated := illegalPlans()
	for i := 0; i < len(generated); i += len(generated) / 16 {
		cases = append(cases, generated[i])
	}
	u := newUntouched(t)
	for _, c := range cases {
		got := u.run(t, c.Text)
		if got.code != exitArguments {
			t.Errorf("%s: exit code %d: %s", c.Name, got.code, got.stderr)
		}
		if !strings.Contains(got.stderr, c.Field) || got.stdout != "" {
			t.Errorf("%s: %q is not named, or there is output:\n%s\n%s", c.Name, c.Field, got.stderr, got.stdout)
		}
		if strings.Count(got.stderr, "not legal") > 1 || strings.Contains(got.stderr, "manifests cannot") {
			t.Errorf("%s: a heading twice, or that of something else:\n%s", c.Name, got.stderr)
		}
		foreign := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if i := strings.IndexFunc(got.stderr, foreign); i >= 0 {
			t.Errorf("%s: shows what a terminal would obey: %q", c.Name, got.stderr)
		}
	}
	if made := u.traces(t); len(made) > 0 {
		t.Errorf("%d plans were refused, and left: %v", len(cases), made)
	}
	t.Logf("%d plans refused by the program", len(cases))
}

// byHand are the illegal plans of testdata. The name of a file says, before the first comma, what must be named.
func byHand(t *testing.T) []illegalPlan {
	t.Helper()
	files, err := filepath.Glob("testdata/illegal/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no illegal plans: %v", err)
	}
	var cases []illegalPlan
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		field, _, _ := strings.Cut(name, ",")
		cases = append(cases, illegalPlan{Name: name, Field: field, Text: text})
	}
	return cases
}

// TestIllegalPlansAreRefused holds that every plan that must be refused is, with the faults and workloads that there
// are, that what is wrong is named, and that nothing of a plan comes through to a terminal as it is.
func TestIllegalPlansAreRefused(t *testing.T) {
	parts := trial.AllParts()
	for _, p := range legalPlans() {
		if err := trial.Validate(parts, p); err != nil {
			t.Errorf("plan %q: %v", p.Scenario, err)
		}
	}
	cases := append(illegalPlans(), byHand(t)...)
	if len(cases) < 300 {
		t.Fatalf("%d illegal plans, want 300 at least", len(cases))
	}
	for _, c := range cases {
		p, err := plan.Decode(c.Text)
		if err == nil {
			err = trial.Validate(parts, p)
		}
		if err == nil {
			t.Errorf("%s: passes", c.Name)
			continue
		}
		said := err.Error()
		if !strings.Contains(said, c.Field) {
			t.Errorf("%s: %q is not named:\n%s", c.Name, c.Field, said)
		}
		foreign := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if len(said) > 40<<10 || strings.ContainsFunc(said, foreign) {
			t.Errorf("%s: %d bytes, or what cannot be printed: %q", c.Name, len(said), said)
		}
		for _, line := range strings.Split(said, "\n")[1:] {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: a line of the plan's own: %q", c.Name, line)
			}
		}
	}
	t.Logf("%d illegal plans refused", len(cases))
}

// TestAPlanFileThatIsNotThere has a name that a terminal would obey.
func TestAPlanFileThatIsNotThere(t *testing.T) {
	got := ask(t, "run", "--plan", "no\x1b[2J\nsuch.json")
	if got.code != exitArguments || strings.ContainsAny(got.stderr, "\x1b") || strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("got %d, %q", got.code, got.stderr)
	}
}
