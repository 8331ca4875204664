package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// TestGoInstall installs seatrial from an empty directory, through a module proxy that holds the last commit. Other
// modules come from the module cache of this host. It says what the program can do then, with and without Go.
func TestGoInstall(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") == "" {
		t.Skip("NOT RUN: compiles seatrial twice: make long")
	}
	const path, version = "github.com/seatrial/seatrial", "v0.0.1"
	top := t.TempDir()
	at := filepath.Join(top, "proxy", filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := exec.CommandContext(t.Context(), "git", "-C", root, "show", "HEAD:go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"list": version + "\n", version + ".mod": string(mod),
		version + ".info": fmt.Sprintf(`{"Version":%q}`, version),
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, packed := t.TempDir(), bytes.Buffer{}
	commit := exec.CommandContext(t.Context(), "sh", "-c", `git -C "$0" archive HEAD | tar -x -C "$1"`, root, tree)
	if out, err := commit.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := zip.CreateFromDir(&packed, module.Version{Path: path, Version: version}, tree); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, version+".zip"), packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	empty, bin := filepath.Join(top, "empty"), filepath.Join(top, "bin")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "GOBIN="+bin, "GOFLAGS=-modcacherw", "GOSUMDB=off", "CGO_ENABLED=0", "GOWORK=off",
		"XDG_CACHE_HOME="+filepath.Join(top, "cache"), "GOMODCACHE="+filepath.Join(top, "modules"),
		"GOPROXY=file://"+filepath.Join(top, "proxy")+",file://"+strings.TrimSpace(string(cache))+"/cache/download")
	if build, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output(); err == nil {
		env = append(env, "GOCACHE="+strings.TrimSpace(string(build)))
	}
	in := func(env []string, argv ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = empty, env
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := in(env, "go", "install", "-trimpath", "-ldflags=-s -w", path+"/tools/seatrial@latest"); code != 0 {
		t.Fatalf("go install: %s", out)
	}
	seatrial := filepath.Join(bin, "seatrial")
	without := append(env, "PATH="+empty)
	for _, c := range []struct {
		env  []string
		args []string
		code int
		want []string
	}{
		{without, []string{"version"}, exitPass, []string{version}},
		{without, []string{"demo"}, exitPass, []string{"k8s-61832"}},
		{without, []string{"plan", "smoke", "--seed", "1"}, exitPass, []string{"kubelet-kill"}},
		{without, []string{"setup"}, exitHarness, []string{"find seatrial-offline",
			"this build carries none (a release does)", `"go": executable file not found`}},
		{env, []string{"clean", "--cluster", "seatrial-not-there"}, exitArguments,
			[]string{`no cluster "seatrial-not-there"`}},
	} {
		out, code := in(c.env, append([]string{seatrial}, c.args...)...)
		for _, want := range c.want {
			if code != c.code || !strings.Contains(out, want) {
				t.Errorf("%q: exit code %d, want %d and %q:\n%s", c.args, code, c.code, want, out)
			}
		}
	}
}
