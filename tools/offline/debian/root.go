// Package debian makes root file systems of Debian suites, as tar files, with nothing but apt: the same suite and
// packages are never put together twice.
//
// The mirror is the one that this host's own apt configuration names.
package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// Spec says what a root file system has in it.
type Spec struct {
	// Name names the result in the store and its log, for example "node-root".
	Name string
	// Suite is the Debian suite, for example "bookworm" or "sid".
	Suite string
	// Packages are installed besides the smallest set that has a package manager; Recommends are not followed.
	Packages []string
	// Includes are patterns of paths that dpkg unpacks although they are among documentation's.
	Includes []string
	// AptOpts are apt configuration lines, for example `Acquire::Check-Valid-Until "false"`.
	AptOpts []string
}

// documentation returns the patterns of paths that dpkg does not unpack: manuals, documents, translations.
func documentation() []string {
	return []string{
		"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*",
		"/usr/share/bug/*", "/usr/share/groff/*", "/usr/share/bash-completion/*", "/usr/share/zsh/*",
	}
}

// Sum is the digest of what the root file system is made from. The versions of the packages are not in it: a result
// in the store stays until it is removed, and newer packages are taken when it is made again.
func (s Spec) Sum(arch string) string {
	packages := slices.Clone(s.Packages)
	slices.Sort(packages)
	return store.Inputs{
		"format":   "1",
		"suite":    s.Suite,
		"arch":     arch,
		"packages": strings.Join(slices.Compact(packages), "\n"),
		"excludes": strings.Join(documentation(), "\n"),
		"includes": strings.Join(s.Includes, "\n"),
		"apt":      strings.Join(s.AptOpts, "\n"),
	}.Sum()
}

// Builder makes root file systems.
type Builder struct {
	Store  store.Store
	Runner proc.Runner
	// Arch is Debian's name of the architecture, which for amd64 and arm64 is Go's.
	Arch string
}

// Has tells whether the root file system is in the store.
func (b Builder) Has(s Spec) bool { return b.Store.Has(s.Name, s.Sum(b.Arch)) }

// Root returns the path of a tar of the root file system, making it when the store does not have it: about a minute,
// and a minute more when mmdebstrap has to be installed first.
func (b Builder) Root(ctx context.Context, s Spec) (string, error) {
	dir, _, err := b.Store.Produce(ctx, s.Name, s.Sum(b.Arch), func(ctx context.Context, dir string) error {
		return b.make(ctx, s, dir)
	})
	return filepath.Join(dir, "root.tar"), err
}

func (b Builder) make(ctx context.Context, s Spec, dir string) error {
	log, err := b.Store.Log(s.Name)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // A log for people; what matters is in the error.
	if err := Install(ctx, b.Runner, log, "mmdebstrap"); err != nil {
		return err
	}
	sources, err := hostSources("/")
	if err != nil {
		return err
	}
	tar := filepath.Join(dir, "root.tar")
	cmd := proc.Command{
		Args: mmdebstrap(s, b.Arch, tar, len(linesFor(sources, codename("/"), s.Suite)) > 0),
		// The times of files that the set-up scripts write would differ each time.
		Env:    []string{"SOURCE_DATE_EPOCH=1", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"},
		Stdin:  strings.NewReader(strings.Join(linesFor(sources, codename("/"), s.Suite), "\n") + "\n"),
		Stdout: log, Stderr: log,
	}
	if err := b.Runner.Run(ctx, cmd); err != nil {
		return fmt.Errorf("make root file system %s of %s (log: %s; the same command resumes): %w",
			s.Name, s.Suite, log.Name(), err)
	}
	return nil
}

// mmdebstrap returns the command line. With fromStdin the sources are read from standard input.
func mmdebstrap(s Spec, arch, tar string, fromStdin bool) []string {
	args := []string{
		"mmdebstrap", "--variant=minbase", "--architectures=" + arch, "--format=tar",
		"--include=" + strings.Join(s.Packages, ","),
		`--aptopt=APT::Install-Recommends "false"`, `--aptopt=Acquire::Retries "3"`,
	}
	for _, opt := range s.AptOpts {
		args = append(args, "--aptopt="+opt)
	}
	for _, pattern := range documentation() {
		args = append(args, "--dpkgopt=path-exclude="+pattern)
	}
	for _, pattern := range s.Includes {
		args = append(args, "--dpkgopt=path-include="+pattern)
	}
	args = append(args, s.Suite, tar)
	if fromStdin {
		args = append(args, "-")
	}
	return args
}

// Install sees to it that a program is there, by installing the Debian package of its name when this process may.
func Install(ctx context.Context, r proc.Runner, log io.Writer, program string) error {
	ask := proc.Command{Args: []string{program, "--version"}, Stdout: io.Discard}
	if err := r.Run(ctx, ask); err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return InstallPackages(ctx, r, log, program)
}

// InstallPackages installs Debian packages on this host.
func InstallPackages(ctx context.Context, r proc.Runner, log io.Writer, packages ...string) error {
	what := strings.Join(packages, " ")
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install %s: this host has no apt-get: install it by hand: %w", what, err)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("install %s: not root: run apt-get install %s as root first", what, what)
	}
	if os.Getenv(offline.ChangesVariable) != "yes" {
		return &offline.ChangesError{Changes: []string{"install " + what}, Fix: "apt-get install " + what}
	}
	apt := func(args ...string) error {
		// Somebody else may be installing something at the same time.
		args = append([]string{"apt-get", "-o", "DPkg::Lock::Timeout=300"}, args...)
		env := []string{"DEBIAN_FRONTEND=noninteractive"}
		return r.Run(ctx, proc.Command{Args: args, Env: env, Stdout: log, Stderr: log})
	}
	install := append([]string{"install", "-y", "--no-install-recommends"}, packages...)
	first := apt(install...)
	if first == nil {
		return nil
	}
	// The usual reason is a list of packages that is old or was never fetched.
	if err := apt("update"); err != nil {
		return fmt.Errorf("install %s: %w", what, errors.Join(first, err))
	}
	if err := apt(install...); err != nil {
		return fmt.Errorf("install %s: %w", what, err)
	}
	return nil
}
