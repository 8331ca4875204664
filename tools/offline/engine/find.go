package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// answerBound is how long a daemon may take to say who it is. A busy one takes a second.
const answerBound = 20 * time.Second

// Find returns the first engine that works, in kind's order: docker, nerdctl, podman; or only the one that
// KIND_EXPERIMENTAL_PROVIDER names, if kind knows it. Kind uses the first client program it finds; Find passes over one
// whose engine does not work, so the caller must give Engine.Name to kind. The error wraps an *offline.NotFoundError if
// none works. It changes nothing that outlives it.
func Find(ctx context.Context, options Options) (Engine, error) {
	options, err := options.withDefaults()
	if err != nil {
		return Engine{}, err
	}
	return find(ctx, options)
}

func find(ctx context.Context, options Options) (Engine, error) {
	var findings []finding
	for _, candidate := range candidates(options.Machine.Getenv("KIND_EXPERIMENTAL_PROVIDER")) {
		engine, stage, err := try(ctx, options, candidate)
		if err == nil {
			return engine, nil
		}
		if ended := context.Cause(ctx); ended != nil {
			return Engine{}, fmt.Errorf("find a container engine: %w", ended)
		}
		findings = append(findings, finding{candidate.name, engine.Path, stage, err})
		options.Log.DebugContext(ctx, "engine does not work", "engine", candidate.name, "stage", stage, "err", err)
	}
	missing := newNotFound(findings)
	for _, f := range findings {
		if f.name == "docker" && f.stage == stageDaemon &&
			(dockerPID(options.Machine) != 0 || !isLocal(ctx, options.Machine, f.path)) {
			missing.Mute, missing.Fix = true, "make `docker info` work for this user"
		}
	}
	return Engine{}, missing
}

// candidate is an engine to look at: the kind provider and the client programs it may go by.
type candidate struct {
	name     string
	programs []string
}

// candidates are the engines kind v0.33.0 would look at. A value of the variable that kind does not know counts for
// nothing, as in kind.
func candidates(provider string) []candidate {
	switch provider {
	case "docker", "podman":
		return []candidate{{provider, []string{provider}}}
	case "nerdctl", "finch", "nerdctl.lima":
		return []candidate{{"nerdctl", []string{provider}}}
	}
	return []candidate{
		{"docker", []string{"docker"}},
		{"nerdctl", []string{"nerdctl", "finch"}},
		{"podman", []string{"podman"}},
	}
}

// try looks at one engine. The engine it returns beside an error has what was learned so far.
func try(ctx context.Context, options Options, candidate candidate) (Engine, stage, error) {
	engine := Engine{Name: candidate.name}
	var err error
	for _, program := range candidate.programs {
		if engine.Path, err = options.Machine.LookPath(program); err == nil {
			break
		}
	}
	if err != nil {
		return engine, stageClient, err
	}
	if engine, err = ask(ctx, options.Machine, engine); err != nil {
		return engine, stageDaemon, err
	}
	if runsNode(ctx, options.Machine, engine) {
		return engine, 0, nil
	}
	if err := probe(ctx, options, engine); err != nil {
		return engine, stagePrivileged, err
	}
	return engine, 0, nil
}

// runsNode reports whether a node of a kind cluster runs on the engine and takes a command: such a node is a privileged
// container, so a probe, which takes 2 s, would show no more.
func runsNode(ctx context.Context, machine Machine, engine Engine) bool {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	out, err := machine.Run(ctx, engine.Path, "ps", "--quiet", "--filter", "label=io.x-k8s.kind.cluster",
		"--filter", "status=running")
	nodes := strings.Fields(string(out))
	if err != nil || len(nodes) == 0 {
		return false
	}
	_, err = machine.Run(ctx, engine.Path, "exec", "--privileged", nodes[0], "true")
	return err == nil
}

func ask(ctx context.Context, machine Machine, engine Engine) (Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	format := "{{json .}}"
	if engine.Name == "podman" {
		format = "json"
	}
	text, err := machine.Run(ctx, engine.Path, "info", "--format", format)
	if err != nil {
		return engine, err
	}
	if engine.Name == "podman" {
		return parsePodmanInfo(text, engine)
	}
	return parseDockerInfo(text, engine)
}

// parseDockerInfo reads what docker and nerdctl say. A client without a daemon prints its own part and leaves the
// server's version empty; some versions of it exit with 0 then.
func parseDockerInfo(text []byte, engine Engine) (Engine, error) {
	var info struct {
		ServerVersion   string
		DefaultRuntime  string
		DockerRootDir   string
		SecurityOptions []string
		ServerErrors    []string
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return engine, fmt.Errorf("read %s info: %w", engine.Name, err)
	}
	if info.ServerVersion == "" {
		return engine, fmt.Errorf("%s info: no server version: %v", engine.Name, info.ServerErrors)
	}
	engine.Version, engine.Runtime, engine.DataRoot = info.ServerVersion, info.DefaultRuntime, info.DockerRootDir
	engine.Rootless = slices.Contains(info.SecurityOptions, "name=rootless")
	return engine, nil
}

func parsePodmanInfo(text []byte, engine Engine) (Engine, error) {
	var info struct {
		Host struct {
			OCIRuntime struct{ Name string } `json:"ociRuntime"`
			Security   struct{ Rootless bool }
		}
		Store   struct{ GraphRoot string }
		Version struct{ Version string }
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return engine, fmt.Errorf("read podman info: %w", err)
	}
	if info.Version.Version == "" {
		return engine, errors.New("podman info: no version")
	}
	engine.Version, engine.Runtime = info.Version.Version, info.Host.OCIRuntime.Name
	engine.DataRoot, engine.Rootless = info.Store.GraphRoot, info.Host.Security.Rootless
	return engine, nil
}
