package debian

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

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
	// Excludes are patterns of paths that dpkg does not unpack, for example "/usr/share/doc/*", and Includes are
	// exceptions to them. Nil Excludes means Documentation().
	Excludes, Includes []string
	// AptOpts are apt configuration lines, for example `Acquire::Check-Valid-Until "false"`.
	AptOpts []string
}

// Documentation returns the patterns of paths that nobody reads in a container: manuals, documents, translations.
func Documentation() []string {
	return []string{
		"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*",
		"/usr/share/bug/*", "/usr/share/groff/*", "/usr/share/bash-completion/*", "/usr/share/zsh/*",
	}
}

// Sum is the digest of what the root file system is made from. The versions of the packages are not in it: a result
// in the store stays until it is removed, and newer packages are taken when it is made again.
func (s Spec) Sum(arch string) string {
	var a store.Address
	a.AddString("format", "1")
	a.AddString("suite", s.Suite)
	a.AddString("arch", arch)
	packages := slices.Clone(s.Packages)
	slices.Sort(packages)
	a.AddString("packages", strings.Join(slices.Compact(packages), "\n"))
	a.AddString("excludes", strings.Join(s.excludes(), "\n"))
	a.AddString("includes", strings.Join(s.Includes, "\n"))
	a.AddString("apt", strings.Join(s.AptOpts, "\n"))
	return a.Sum()
}

func (s Spec) excludes() []string {
	if s.Excludes == nil {
		return Documentation()
	}
	return s.Excludes
}

// runner runs programs.
type runner interface {
	Run(ctx context.Context, c proc.Command) error
}

// Builder makes root file systems.
type Builder struct {
	Store  store.Store
	Runner runner
	// Arch is Debian's name of the architecture, which for amd64 and arm64 is Go's.
	Arch string
}

// New returns a builder on this host that keeps its results in s.
func New(s store.Store) Builder {
	return Builder{Store: s, Runner: proc.Exec{}, Arch: runtime.GOARCH}
}

// Has tells whether the root file system is in the store.
func (b Builder) Has(s Spec) bool { return b.Store.Has(s.Name, s.Sum(b.Arch)) }

// Root returns the path and the sha256 (hexadecimal) of a tar of the root file system, making it when the store does
// not have it: about a minute, and a minute more when mmdebstrap has to be installed first.
func (b Builder) Root(ctx context.Context, s Spec) (tarPath, digest string, err error) {
	dir, _, err := b.Store.Produce(ctx, s.Name, s.Sum(b.Arch), func(ctx context.Context, dir string) error {
		return b.make(ctx, s, dir)
	})
	if err != nil {
		return "", "", err
	}
	sum, err := os.ReadFile(filepath.Join(dir, "root.tar.sha256"))
	if err != nil {
		return "", "", fmt.Errorf("read digest of root file system %s: %w", s.Name, err)
	}
	return filepath.Join(dir, "root.tar"), string(sum), nil
}

func (b Builder) make(ctx context.Context, s Spec, dir string) error {
	logPath, err := b.Store.LogPath(s.Name)
	if err != nil {
		return err
	}
	log, err := os.Create(logPath)
	if err != nil {
		return fmt.Errorf("open log of root file system %s: %w", s.Name, err)
	}
	defer func() { _ = log.Close() }() // A log for people; what matters is in the error.
	if err := Install(ctx, b.Runner, log, "mmdebstrap", "mmdebstrap"); err != nil {
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
			s.Name, s.Suite, logPath, err)
	}
	sum, err := fileSum(tar)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "root.tar.sha256"), []byte(sum), 0o644)
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
	for _, pattern := range s.excludes() {
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

// Install sees to it that a program is there, by installing the Debian package that has it when this process may.
func Install(ctx context.Context, r runner, log io.Writer, program, pkg string) error {
	ask := proc.Command{Args: []string{program, "--version"}, Stdout: io.Discard}
	if err := r.Run(ctx, ask); err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return InstallPackage(ctx, r, log, pkg)
}

// InstallPackage installs a Debian package on this host.
func InstallPackage(ctx context.Context, r runner, log io.Writer, pkg string) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install %s: this host has no apt-get: install it by hand: %w", pkg, err)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("install %s: not root: run apt-get install %s as root first", pkg, pkg)
	}
	env := []string{"DEBIAN_FRONTEND=noninteractive"}
	install := proc.Command{
		// Somebody else may be installing something at the same time.
		Args: []string{"apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=180", pkg},
		Env:  env, Stdout: log, Stderr: log,
	}
	first := r.Run(ctx, install)
	if first == nil {
		return nil
	}
	// The usual reason is a list of packages that is old or was never fetched.
	update := proc.Command{Args: []string{"apt-get", "update"}, Env: env, Stdout: log, Stderr: log}
	if err := r.Run(ctx, update); err != nil {
		return fmt.Errorf("install %s: %w", pkg, errors.Join(first, err))
	}
	if err := r.Run(ctx, install); err != nil {
		return fmt.Errorf("install %s: %w", pkg, err)
	}
	return nil
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hash root file system: %w", err)
	}
	defer func() { _ = f.Close() }() // Read only: nothing can be lost.
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash root file system: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
