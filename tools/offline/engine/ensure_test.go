package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/tools/offline/engine/ociwrap"
)

const (
	fullCaps  = "CapBnd:\t000001ffffffffff\n"
	shortCaps = "CapBnd:\t000001fffeffffff\n"
)

func TestCannotMake(t *testing.T) {
	debian := map[string]string{"apt-get": "/bin/apt-get"}
	local := func([]string) (string, error) { return "unix:///var/run/docker.sock\n", nil }
	running := map[string]string{"/var/run/docker.pid": "7", "/proc/7/comm": "dockerd\n",
		"/proc/sys/kernel/cap_last_cap": "40\n"}
	for name, tc := range map[string]struct {
		machine fakeMachine
		docker  finding
		why     string // Empty when it can be made.
	}{
		"apt and root": {machine: fakeMachine{programs: debian}, docker: finding{name: "docker", stage: stageClient}},
		"not root": {machine: fakeMachine{programs: debian, uid: 1000}, docker: finding{name: "docker"},
			why: "root only"},
		"no apt":         {docker: finding{name: "docker", stage: stageClient}, why: "no apt-get"},
		"another engine": {docker: finding{name: "podman"}, why: "asks for podman"},
		"elsewhere": {
			machine: fakeMachine{programs: debian, env: map[string]string{"DOCKER_HOST": "tcp://10.0.0.1:2375"}},
			docker:  finding{name: "docker", path: "/d", stage: stageDaemon}, why: "other than this host's"},
		"another context": {machine: fakeMachine{programs: debian,
			answer: func([]string) (string, error) { return "unix:///home/x/.docker/run/docker.sock\n", nil }},
			docker: finding{name: "docker", path: "/d", stage: stageDaemon}, why: "other than this host's"},
		"installed, not running": {
			machine: fakeMachine{
				programs: map[string]string{"dockerd": "/sbin/dockerd", "docker": "/d"}, answer: local},
			docker: finding{name: "docker", path: "/d", stage: stageDaemon}},
		"no privileged containers for want of a capability": {
			machine: fakeMachine{answer: local, files: merged(running, map[string]string{"/proc/7/status": shortCaps})},
			docker:  finding{name: "docker", path: "/d", stage: stagePrivileged}},
		"no privileged containers, for another reason": {
			machine: fakeMachine{answer: local, files: merged(running, map[string]string{"/proc/7/status": fullCaps})},
			docker:  finding{name: "docker", path: "/d", stage: stagePrivileged}, why: "not the cause"},
	} {
		t.Run(name, func(t *testing.T) {
			options := fakeOptions(t, &tc.machine)
			why, fix := cannotMake(t.Context(), options, newNotFound([]finding{tc.docker}))
			if (why == "") != (tc.why == "") || !strings.Contains(why, tc.why) {
				t.Errorf("why = %q, want %q in it", why, tc.why)
			}
			if (why == "") != (fix == "") {
				t.Errorf("why %q has the fix %q", why, fix)
			}
		})
	}
}

func merged(maps ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range maps {
		for key, value := range m {
			out[key] = value
		}
	}
	return out
}

// TestEnsureSaysWhy is a user who is not root on a host with no engine: nothing is done, and all is said.
func TestEnsureSaysWhy(t *testing.T) {
	machine := &fakeMachine{uid: 1000}
	options := fakeOptions(t, machine)
	_, err := Ensure(t.Context(), options)
	var missing *notFoundError
	if !errors.As(err, &missing) || missing.Why == "" || !strings.HasPrefix(missing.Fix, "sudo ") {
		t.Fatalf("Ensure: %v", err)
	}
	if len(machine.ran) > 0 {
		t.Errorf("it ran %q", machine.ran)
	}
	if left, _ := os.ReadDir(options.StateDir); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

func TestMissingSteps(t *testing.T) {
	programs := map[string]string{"dockerd": "/d", "docker": "/c"}
	running := map[string]string{"/var/run/docker.pid": "7", "/proc/7/comm": "dockerd\n"}
	for name, tc := range map[string]struct {
		machine fakeMachine
		lacks   []string
		want    []string // The first word of each step.
	}{
		"nothing there":           {lacks: []string{"CAP_BPF"}, want: []string{"install", "put", "start"}},
		"nothing there, all caps": {want: []string{"install", "start"}},
		"installed":               {machine: fakeMachine{programs: programs}, want: []string{"start"}},
		"no client": {machine: fakeMachine{programs: map[string]string{"dockerd": "/d"}},
			want: []string{"install", "start"}},
		"running, lacks": {machine: fakeMachine{programs: programs, files: running}, lacks: []string{"CAP_BPF"},
			want: []string{"put"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, step := range missingSteps(fakeOptions(t, &tc.machine), &State{}, tc.lacks) {
				first, _, _ := strings.Cut(step.Name, " ")
				got = append(got, first)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLacking looks at the process whose bounding set the containers will have.
func TestLacking(t *testing.T) {
	last := map[string]string{"/proc/sys/kernel/cap_last_cap": "40\n"}
	self := map[string]string{"/proc/self/status": fullCaps}
	for name, tc := range map[string]struct {
		files map[string]string
		want  ociwrap.Set
		bad   bool
	}{
		"self": {files: merged(last, self)},
		"systemd": {files: merged(last, self, map[string]string{
			"/proc/1/comm": "systemd\n", "/proc/1/status": shortCaps}),
			want: 1 << 24},
		"dockerd": {files: merged(last, self, map[string]string{"/proc/1/comm": "systemd\n", "/proc/1/status": fullCaps,
			"/var/run/docker.pid": "7\n", "/proc/7/comm": "dockerd\n", "/proc/7/status": shortCaps}), want: 1 << 24},
		"a stale pid file": {files: merged(last, self, map[string]string{"/var/run/docker.pid": "7\n",
			"/proc/7/comm": "bash\n", "/proc/7/status": shortCaps})},
		"no last capability": {files: self, bad: true},
		"no status":          {files: last, bad: true},
	} {
		got, err := lacking(&fakeMachine{files: tc.files})
		if got != tc.want || (err != nil) != tc.bad {
			t.Errorf("%s: lacking = %#x, %v, want %#x", name, got, err, tc.want)
		}
	}
}

// TestRegisterAndClean registers the wrapper, twice, and takes it away again, with no docker running.
func TestRegisterAndClean(t *testing.T) {
	const before = `{"debug":true,"default-runtime":"crun","runtimes":{"crun":{"path":"/c"}}}`
	machine := &fakeMachine{programs: map[string]string{"/c": "/c"}}
	options := fakeOptions(t, machine)
	if err := writeFile(options.DaemonConfig, []byte(before)); err != nil {
		t.Fatal(err)
	}
	wrapper := filepath.Join(t.TempDir(), "wrapper")
	if err := os.WriteFile(wrapper, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(program.RuncWrap().Variable, wrapper)
	for range 2 {
		state, err := loadState(options.StateDir)
		if err != nil {
			t.Fatal(err)
		}
		if err := register(t.Context(), options, &state); err != nil {
			t.Fatal(err)
		}
	}
	config, err := os.ReadFile(options.DaemonConfig)
	if err != nil || !isRegistered(config) {
		t.Fatalf("registered: %s, %v", config, err)
	}
	built, _ := filepath.Glob(filepath.Join(options.StateDir, "runcwrap-*"))
	if len(built) != 2 || !strings.Contains(string(config), built[0]+`"`) || built[1] != built[0]+".runtime" {
		t.Fatalf("placed %q, registered %s", built, config)
	}
	if to, err := os.Readlink(built[1]); err != nil || to != "/c" {
		t.Errorf("the link beside the wrapper is to %q (%v)", to, err)
	}
	if err := Clean(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	config, err = os.ReadFile(options.DaemonConfig)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(meaning(t, []byte(before)), meaning(t, config)); diff != "" {
		t.Errorf("restored (-want +got):\n%s", diff)
	}
	if left, _ := filepath.Glob(filepath.Join(options.StateDir, "runcwrap-*")); len(left) > 0 {
		t.Errorf("the wrapper is still there: %q", left)
	}
	state, err := loadState(options.StateDir)
	if diff := cmp.Diff(State{Schema: stateSchema}, state); diff != "" || err != nil {
		t.Errorf("state (-want +got):\n%s%v", diff, err)
	}
	if err := Clean(t.Context(), options); err != nil {
		t.Errorf("a second Clean: %v", err)
	}
}

// TestCleanKeepsWhatItCannotUndo: a configuration that cannot be read may name the wrapper, so that stays.
func TestCleanKeepsWhatItCannotUndo(t *testing.T) {
	options := fakeOptions(t, &fakeMachine{})
	state := State{Schema: stateSchema, Wrapper: &Wrapper{Path: "/w", Config: options.DaemonConfig}}
	wrapper := filepath.Join(options.StateDir, "runcwrap-1")
	if err := errors.Join(
		saveState(options.StateDir, state), writeFile(options.DaemonConfig, []byte("{")), writeFile(wrapper, nil),
	); err != nil {
		t.Fatal(err)
	}
	if err := Clean(t.Context(), options); err == nil || !strings.Contains(err.Error(), "docker's configuration") {
		t.Errorf("Clean: %v, want that the configuration cannot be read", err)
	}
	if _, err := os.Stat(wrapper); err != nil {
		t.Errorf("the wrapper is gone: %v", err)
	}
	if kept, err := loadState(options.StateDir); err != nil || kept.Wrapper == nil {
		t.Errorf("state %+v (%v), want the wrapper in it", kept, err)
	}
}
