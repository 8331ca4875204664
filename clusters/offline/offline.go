// Package offline runs the program tools/offline, which makes what a host without a container registry lacks: a
// container engine, the node image, the database image, and the sidecars of a CSI driver. Nothing else of this module
// knows how these are made.
package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	semver "k8s.io/apimachinery/pkg/util/version"

	"github.com/seatrial/seatrial/clusters/linux"
	"github.com/seatrial/seatrial/clusters/program"
)

// DefaultKubernetesVersion is the version of the node image that the kind version in go.mod publishes.
const DefaultKubernetesVersion = "v1.37.0"

// NodeImageRepository is the repository of built node images. They are never in a registry.
const NodeImageRepository = "localhost/seatrial/node"

// EnsureCommand is the command that makes a container engine where one can be made.
const EnsureCommand = "seatrial setup --yes"

// ValidateImages refuses an unknown image source, and a Kubernetes version that is not pinned, unless the source is an
// image in a registry; empty ones mean the defaults.
func ValidateImages(kubernetesVersion, source string) error {
	if kubernetesVersion != "" && !IsReference(source) && !slices.Contains(KubernetesVersions(), kubernetesVersion) {
		return fmt.Errorf("kubernetes version %q is not pinned: use one of %s, or, in the source tree, run "+
			"seatrial versions add %s",
			kubernetesVersion, strings.Join(KubernetesVersions(), ", "), kubernetesVersion)
	}
	switch source {
	case "", "auto", "published", "build":
		return nil
	}
	if !IsReference(source) {
		return fmt.Errorf("node image %q is not known: use auto, published, build, or an image of a kind node such as "+
			"kindest/node:v1.36.1@sha256:DIGEST", source)
	}
	if _, err := semver.ParseSemantic(kubernetesVersion); kubernetesVersion != "" && err != nil {
		return fmt.Errorf("kubernetes version %q: %w; write it like v1.37.0", kubernetesVersion, err)
	}
	return nil
}

// IsReference tells an image of a registry from a word such as "published".
func IsReference(image string) bool {
	_, err := name.ParseReference(image)
	return err == nil && strings.ContainsAny(image, ":/@")
}

// TaggedVersion returns the version of Kubernetes that a node image has in its tag, as those of kind have; else "".
func TaggedVersion(image string) string {
	image, _, _ = strings.Cut(image, "@")
	tag := image[strings.LastIndex(image, ":")+1:]
	if _, err := semver.ParseSemantic(tag); err != nil || !strings.HasPrefix(tag, "v") {
		return ""
	}
	return tag
}

// ValidateDatabase refuses what neither names a way to make the database image nor an image in a registry.
func ValidateDatabase(image string) error {
	switch image {
	case "", "auto", "published", "build":
		return nil
	}
	if !IsReference(image) {
		return fmt.Errorf("database image %q is not known: use auto, published, build, or an image of MySQL such as "+
			"mysql:8.4 or mysql@sha256:DIGEST", image)
	}
	return nil
}

// Answer is what the program prints to standard output, as JSON.
type Answer struct {
	Engine   *Engine        `json:"engine,omitempty"`
	Images   *Images        `json:"images,omitempty"`
	Database *Database      `json:"database,omitempty"`
	Sidecars *Sidecars      `json:"sidecars,omitempty"`
	NotFound *NotFoundError `json:"notFound,omitempty"`
	BadFile  *BadFileError  `json:"badFile,omitempty"`
	Changes  *ChangesError  `json:"changes,omitempty"`
	Error    string         `json:"error,omitempty"`
}

// Engine is a container engine that was shown to run privileged containers.
type Engine struct {
	Name     string `json:"name"`              // The kind provider: "docker", "nerdctl" or "podman".
	Path     string `json:"path"`              // The client program, absolute.
	Version  string `json:"version"`           // The server's version.
	Runtime  string `json:"runtime,omitempty"` // The default OCI runtime, where the engine tells.
	DataRoot string `json:"dataRoot"`          // Where images and containers are kept on the host.
	Rootless bool   `json:"rootless"`
}

// String names the engine in one line.
func (e Engine) String() string { return fmt.Sprintf("%s %s (%s)", e.Name, e.Version, e.Path) }

// EngineNeed is what an engine must be able to do.
const EngineNeed = "docker, nerdctl or podman with a daemon that runs privileged containers"

// NotFoundError means that no container engine works.
type NotFoundError struct {
	Found string `json:"found"`         // One engine after the other.
	Why   string `json:"why,omitempty"` // Why none could be made; empty when that was not tried.
	Fix   string `json:"fix,omitempty"`
	Mute  bool   `json:"mute,omitempty"` // A daemon that does not answer may run containers.
}

// Error returns what was found, what is needed, and the fix.
func (e *NotFoundError) Error() string {
	text := "find a container engine: found " + e.Found + "; need " + EngineNeed
	if e.Why != "" {
		text += "; " + e.Why
	}
	if e.Fix != "" {
		text += "; fix: " + e.Fix
	}
	return text
}

// ChangesVariable is the environment variable that says what the program may change on this host: "yes" is everything
// that it needs, "no" not even a limit of the kernel. Otherwise it raises such limits, and neither installs nor starts
// anything.
const ChangesVariable = "SEATRIAL_HOST_CHANGES"

// ChangesError names changes of this host that nobody has agreed to. Nothing was touched.
type ChangesError struct {
	Changes []string `json:"changes"`       // "install docker.io".
	Fix     string   `json:"fix,omitempty"` // The command that makes them all without seatrial, if there is one.
}

// Error names the changes and how to agree to them.
func (e *ChangesError) Error() string {
	text := "this host must be changed first: " + strings.Join(e.Changes, "; ") + "; fix: give --yes"
	if e.Fix != "" {
		text += ", or, as root: " + e.Fix
	}
	return text
}

// Consent says which changes of this host are agreed to. Zero, $SEATRIAL_HOST_CHANGES says it.
type Consent struct {
	Changes string                   // "yes" or "no"; else as the environment says.
	Ask     func(*ChangesError) bool // Asks for what Changes leaves open; nil is a no.
}

// BadFileError says why a file of images, or a version to pin, is refused.
type BadFileError struct {
	Text string `json:"text"`
}

func (e *BadFileError) Error() string { return e.Text }

// Images are the images of a trial.
type Images struct {
	Node              string   `json:"node"` // Reference of the node image, present in the engine.
	KubernetesVersion string   `json:"kubernetesVersion"`
	Source            string   `json:"source"` // "published" or "build".
	Database          Database `json:"database"`
}

// Database is the database image in a docker archive.
type Database struct {
	Path    string `json:"path"`
	Ref     string `json:"ref"`     // localhost/seatrial/mysql:9.7.4-<12 hexadecimal digits of the content>.
	Digest  string `json:"digest"`  // Of the image's configuration: what the container runtime calls the image id.
	Version string `json:"version"` // Of MySQL, "9.7.4".
	Bytes   int64  `json:"bytes"`   // Size of the archive.

	Source string `json:"source,omitempty"` // The published image that it was made of, by digest.
}

// Sidecars are programs that a CSI driver is run with, linked statically. Attacher and Provisioner are paths on
// this host.
type Sidecars struct {
	Attacher    string            `json:"attacher"`
	Provisioner string            `json:"provisioner"`
	Versions    map[string]string `json:"versions"` // By the module's name: "external-attacher" and so on.
}

// Tool runs the program.
type Tool struct {
	CacheDir string       // Where builds are kept; below the user's cache directory when empty.
	Progress io.Writer    // Gets the program's messages as they come; nil discards them.
	Log      *slog.Logger // Logs the building of the program; nil discards it.
	Consent  Consent
	Database string // How the database image is made, as ValidateDatabase takes it.
}

// FindEngine finds a container engine that works and changes nothing. The error is a *NotFoundError when none does.
func (t Tool) FindEngine(ctx context.Context) (Engine, error) { return part(ctx, t, engine, "status") }

// EnsureEngine finds a container engine that works, or makes one.
func (t Tool) EnsureEngine(ctx context.Context) (Engine, error) {
	return part(ctx, t, engine, "ensure")
}

// CleanEngine undoes what EnsureEngine did to this host.
func (t Tool) CleanEngine(ctx context.Context) error {
	_, err := t.run(ctx, "clean")
	return err
}

// EnsureImages makes the database image and the node image, if they do not exist. It prints first what it will do and
// how long that takes. The engine is the path of its client.
func (t Tool) EnsureImages(ctx context.Context, engine, kubernetesVersion, source string) (Images, error) {
	return part(ctx, t, images, "images",
		"--engine="+engine, "--kubernetes-version="+kubernetesVersion, "--source="+source, "--database="+t.Database)
}

// SaveImages makes images and sidecars, as EnsureImages and EnsureSidecars do, and writes them to a file.
func (t Tool) SaveImages(ctx context.Context, file, engine, kubernetesVersion, source string) (Images, error) {
	return part(ctx, t, images, "save", "--file="+file,
		"--engine="+engine, "--kubernetes-version="+kubernetesVersion, "--source="+source, "--database="+t.Database)
}

// CheckImages refuses, with a *BadFileError, a file that SaveImages of this build would not write. It changes nothing.
func (t Tool) CheckImages(ctx context.Context, file, kubernetesVersion string) error {
	_, err := t.run(ctx, "check", "--file="+file, "--kubernetes-version="+kubernetesVersion)
	return err
}

// LoadImages takes images and sidecars from a file that SaveImages has written, or refuses it as CheckImages does.
func (t Tool) LoadImages(ctx context.Context, file, engine, kubernetesVersion string) (Images, error) {
	return part(ctx, t, images, "load", "--file="+file, "--engine="+engine, "--kubernetes-version="+kubernetesVersion)
}

// EnsureDatabase makes the database image, if the cache does not have it.
func (t Tool) EnsureDatabase(ctx context.Context) (Database, error) {
	return part(ctx, t, func(a Answer) *Database { return a.Database }, "database", "--database="+t.Database)
}

// EnsureSidecars compiles the sidecars that the cache does not have: about seven minutes for all on two idle cores.
func (t Tool) EnsureSidecars(ctx context.Context) (Sidecars, error) {
	return part(ctx, t, func(a Answer) *Sidecars { return a.Sidecars }, "sidecars")
}

// Pin adds a version of Kubernetes to the source tree in the working directory, with the checksums of all modules. A
// version that does not exist is a *BadFileError.
func (t Tool) Pin(ctx context.Context, version string) error {
	t.CacheDir = "" // It takes none.
	_, err := t.run(ctx, "pin", version)
	return err
}

func engine(a Answer) *Engine { return a.Engine }
func images(a Answer) *Images { return a.Images }

// part runs the program and returns a part of its answer.
func part[T any](ctx context.Context, t Tool, of func(Answer) *T, args ...string) (T, error) {
	var none T
	a, err := t.run(ctx, args...)
	if err != nil {
		return none, err
	}
	if of(a) == nil {
		return none, fmt.Errorf("run the program offline: its answer to %q named none", args[0])
	}
	return *of(a), nil
}

// endBound is how long the program may take to end after an interrupt: its own compilers get 15 s.
const endBound = 20 * time.Second

// NotLinuxError means that the program cannot run on this system.
type NotLinuxError struct{}

// Error names what works instead.
func (NotLinuxError) Error() string {
	return "nothing was touched: seatrial makes container engines, images and kind clusters on Linux alone; run it " +
		"on a Linux machine, or name a cluster that exists with --kubeconfig FILE"
}

// run runs the program to its end. An error in its answer is returned as it is.
func (t Tool) run(ctx context.Context, args ...string) (Answer, error) {
	if !linux.Here {
		return Answer{}, NotLinuxError{}
	}
	a, err := t.once(ctx, args...)
	var open *ChangesError
	if errors.As(err, &open) && t.Consent.Changes == "" && t.Consent.Ask != nil && t.Consent.Ask(open) {
		t.Consent.Changes = "yes"
		return t.once(ctx, args...)
	}
	return a, err
}

func (t Tool) once(ctx context.Context, args ...string) (Answer, error) {
	if t.Log == nil {
		t.Log = slog.New(slog.DiscardHandler)
	}
	tool := program.Offline()
	path, err := tool.Find(ctx, t.Log)
	if err != nil {
		return Answer{}, err
	}
	if t.CacheDir != "" {
		args = append(args, "--cache="+t.CacheDir)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stderr = t.Progress
	if t.Consent.Changes != "" {
		cmd.Env = append(os.Environ(), ChangesVariable+"="+t.Consent.Changes)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = endBound
	// An interrupt at the terminal reaches the program through Cancel alone, once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	linux.DieWithParent(cmd.SysProcAttr, syscall.SIGTERM)
	out, err := cmd.Output()
	if ended := context.Cause(ctx); ended != nil {
		return Answer{}, fmt.Errorf("run %s %s: %w", tool.Name, args[0], ended)
	}
	var a Answer
	if decodeErr := json.Unmarshal(out, &a); decodeErr != nil {
		return Answer{}, fmt.Errorf("run %s %s: %w", tool.Name, args[0], errors.Join(err, decodeErr))
	}
	switch {
	case a.NotFound != nil:
		return Answer{}, a.NotFound
	case a.BadFile != nil:
		return Answer{}, a.BadFile
	case a.Changes != nil:
		return Answer{}, a.Changes
	case a.Error != "":
		return Answer{}, errors.New(a.Error)
	case err != nil:
		return Answer{}, fmt.Errorf("run %s %s: %w", tool.Name, args[0], err)
	}
	return a, nil
}
