package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/clusters/program"
)

// engines answers for the clients of that path: what info says, and which command fails.
func engines(infos map[string]string, fail func(argv []string) error) func([]string) (string, error) {
	return func(argv []string) (string, error) {
		if err := fail(argv); err != nil {
			return "", err
		}
		switch argv[1] {
		case "info":
			info, ok := infos[argv[0]]
			if !ok {
				return "", errors.New("cannot connect")
			}
			return info, nil
		case "exec":
			return "privileged\n", nil
		}
		return "", nil
	}
}

// prebuilt names a file as the probe's program, so that finding does not compile it.
func prebuilt(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "enginecheck")
	if err := os.WriteFile(path, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(program.EngineCheck().Variable, path)
}

const (
	dockerInfo = `{"ServerVersion":"20.10.24","DefaultRuntime":"runc","DockerRootDir":"/d",` +
		`"SecurityOptions":["name=seccomp"]}`
	podmanInfo = `{"host":{"ociRuntime":{"name":"crun"},"security":{"rootless":true}},"store":{"graphRoot":"/p"},` +
		`"version":{"Version":"5.1.0"}}`
)

func never([]string) error { return nil }

// failing makes one command of one client fail.
func failing(path, command string) func([]string) error {
	return func(argv []string) error {
		if argv[0] == path && argv[1] == command {
			return fmt.Errorf("%s %s: no", path, command)
		}
		return nil
	}
}

func TestFind(t *testing.T) {
	docker := Engine{Name: "docker", Path: "/bin/docker", Version: "20.10.24", Runtime: "runc", DataRoot: "/d"}
	podman := Engine{Name: "podman", Path: "/bin/podman", Version: "5.1.0", Runtime: "crun", DataRoot: "/p",
		Rootless: true}
	all := map[string]string{"/bin/docker": dockerInfo, "/bin/nerdctl": dockerInfo, "/bin/finch": dockerInfo,
		"/bin/podman": podmanInfo}
	for name, tc := range map[string]struct {
		programs string
		provider string
		infos    map[string]string
		fail     func([]string) error
		want     Engine
		stages   []stage // Of a *notFoundError; none when one is found.
	}{
		"docker first":       {programs: "docker nerdctl podman", infos: all, want: docker},
		"podman alone":       {programs: "podman", infos: all, want: podman},
		"nerdctl before it":  {programs: "nerdctl podman", infos: all, want: with(docker, "nerdctl", "/bin/nerdctl")},
		"finch for nerdctl":  {programs: "finch", infos: all, want: with(docker, "nerdctl", "/bin/finch")},
		"provider obeyed":    {programs: "docker podman", provider: "podman", infos: all, want: podman},
		"provider unknown":   {programs: "docker podman", provider: "lxc", infos: all, want: docker},
		"provider not there": {programs: "docker", provider: "podman", infos: all, stages: []stage{stageClient}},
		"dead docker passed by": {programs: "docker podman", infos: map[string]string{"/bin/podman": podmanInfo},
			want: podman},
		"docker without a server": {programs: "docker",
			infos:  map[string]string{"/bin/docker": `{"ServerErrors":["x"]}`},
			stages: []stage{stageDaemon, stageClient, stageClient}},
		"not even JSON": {programs: "podman", infos: map[string]string{"/bin/podman": "Usage:"},
			stages: []stage{stageClient, stageClient, stageDaemon}},
		"no exec": {programs: "docker", infos: all, fail: failing("/bin/docker", "exec"),
			stages: []stage{stagePrivileged, stageClient, stageClient}},
		"no run":  {programs: "docker podman", infos: all, fail: failing("/bin/docker", "run"), want: podman},
		"nothing": {infos: all, stages: []stage{stageClient, stageClient, stageClient}},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &fakeMachine{env: map[string]string{"KIND_EXPERIMENTAL_PROVIDER": tc.provider},
				programs: map[string]string{}}
			for _, program := range strings.Fields(tc.programs) {
				machine.programs[program] = "/bin/" + program
			}
			if tc.fail == nil {
				tc.fail = never
			}
			machine.answer = engines(tc.infos, tc.fail)
			options := fakeOptions(t, machine)
			prebuilt(t)
			got, err := Find(t.Context(), options)
			var missing *notFoundError
			if errors.As(err, &missing) != (tc.stages != nil) {
				t.Fatalf("Find: %v, %v", got, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("engine (-want +got):\n%s", diff)
			}
			if missing == nil {
				return
			}
			var stages []stage
			for _, finding := range missing.findings {
				stages = append(stages, finding.stage)
			}
			if diff := cmp.Diff(tc.stages, stages); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
		})
	}
}

func with(engine Engine, name, path string) Engine {
	engine.Name, engine.Path = name, path
	return engine
}

// TestProbeLeavesNothing looks at every command of a probe, also of one whose container does not run a command.
func TestProbeLeavesNothing(t *testing.T) {
	for _, broken := range []string{"", "exec", "run"} {
		machine := &fakeMachine{programs: map[string]string{"docker": "/bin/docker"}}
		machine.answer = engines(map[string]string{"/bin/docker": dockerInfo}, func(argv []string) error {
			if argv[1] == broken {
				return errors.New("no")
			}
			return nil
		})
		options := fakeOptions(t, machine)
		prebuilt(t)
		_, err := Find(t.Context(), options)
		if (err != nil) != (broken != "") {
			t.Errorf("with %q broken: %v", broken, err)
		}
		var names, removed []string
		for _, line := range machine.ran {
			argv := strings.Fields(line)
			switch argv[1] {
			case "run":
				names = append(names, argv[6], argv[9])
				if argv[3] != "--privileged" {
					t.Errorf("not privileged: %s", line)
				}
			case "rm", "rmi":
				removed = append(removed, argv[len(argv)-1])
			}
		}
		if diff := cmp.Diff(names, removed); diff != "" || len(names) != 2 {
			t.Errorf("with %q broken, made and removed (-want +got):\n%s\n%q", broken, diff, machine.ran)
		}
	}
}

// TestNodeShowsEngine looks for a probe: a running node that takes a command makes it needless, any other does not.
func TestNodeShowsEngine(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes  string
		broken string // A command that fails on the node.
		probed bool
	}{
		"a node":               {nodes: "c0ffee\nf00d\n"},
		"no node":              {probed: true},
		"a node without exec":  {nodes: "c0ffee\n", broken: "c0ffee", probed: true},
		"nodes are not listed": {nodes: "c0ffee\n", broken: "--quiet", probed: true},
	} {
		machine := &fakeMachine{programs: map[string]string{"docker": "/bin/docker"}}
		all := engines(map[string]string{"/bin/docker": dockerInfo}, func(argv []string) error {
			if tc.broken != "" && slices.Contains(argv, tc.broken) {
				return errors.New("no")
			}
			return nil
		})
		machine.answer = func(argv []string) (string, error) {
			text, err := all(argv)
			if argv[1] == "ps" && err == nil {
				text = tc.nodes
			}
			return text, err
		}
		prebuilt(t)
		_, err := Find(t.Context(), fakeOptions(t, machine))
		probed := slices.ContainsFunc(machine.ran, func(line string) bool { return strings.Contains(line, " run ") })
		if err != nil || probed != tc.probed {
			t.Errorf("%s: probed is %t, want %t (%v):\n%q", name, probed, tc.probed, err, machine.ran)
		}
	}
}

func TestFindEndsWithItsContext(t *testing.T) {
	machine := &fakeMachine{programs: map[string]string{"docker": "/bin/docker"}}
	options := fakeOptions(t, machine)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Find(ctx, options)
	var missing *notFoundError
	if !errors.Is(err, context.Canceled) || errors.As(err, &missing) {
		t.Errorf("Find: %v, want only that its context ended", err)
	}
}

// TestMuteDaemon tells a daemon that may run containers, and does not answer this user, from one that does not run.
func TestMuteDaemon(t *testing.T) {
	running := map[string]string{dockerPIDFile: "7", "/proc/7/comm": "dockerd\n"}
	for name, tc := range map[string]struct {
		files, env map[string]string
		want       bool
	}{
		"does not run":    {want: false},
		"runs":            {files: running, want: true},
		"on another host": {env: map[string]string{"DOCKER_HOST": "tcp://build:2376"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &fakeMachine{files: tc.files, env: tc.env, programs: map[string]string{"docker": "/bin/docker"}}
			machine.answer = func(argv []string) (string, error) {
				if argv[1] == "context" {
					return dockerSocket, nil
				}
				return "", errors.New("permission denied")
			}
			_, err := Find(t.Context(), fakeOptions(t, machine))
			var missing *notFoundError
			if !errors.As(err, &missing) || missing.Mute != tc.want {
				t.Errorf("got %+v, want mute %v", err, tc.want)
			}
		})
	}
}

func TestNotFoundError(t *testing.T) {
	err := newNotFound([]finding{
		{name: "docker", path: "/bin/docker", stage: stageDaemon, err: errors.New("cannot connect")},
		{name: "nerdctl", stage: stageClient, err: os.ErrNotExist},
		{name: "podman", path: "/bin/podman", stage: stagePrivileged, err: errors.New("unable to apply caps")},
	})
	err.Why = "an engine can be made by root only"
	const want = "find a container engine: found " +
		"docker: /bin/docker is there, its daemon does not answer: cannot connect; " +
		"nerdctl: not installed; " +
		"podman: its daemon answers, a privileged container does not run: unable to apply caps; " +
		"need docker, nerdctl or podman with a daemon that runs privileged containers; " +
		"an engine can be made by root only; fix: seatrial setup --yes"
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("Error (-want +got):\n%s", diff)
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Error("the engines' own errors are not wrapped")
	}
}
