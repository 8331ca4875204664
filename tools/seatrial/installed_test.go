package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestInstalled tries the released file $SEATRIAL_RELEASE where nothing else is: in an empty container that reaches the
// engine by its socket, and as a user of this host in the group docker. Images come from a file. Each runs a trial to
// its verdict; afterwards this host has what it had.
func TestInstalled(t *testing.T) {
	release := os.Getenv("SEATRIAL_RELEASE")
	if release == "" {
		t.Skip("NOT RUN: runs a release in an empty container and as a user: make install-check")
	}
	docker, err := exec.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), t.TempDir()
	for _, at := range []string{dir, filepath.Dir(dir), bin} { // The user reads program and images.
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program, images := filepath.Join(dir, "seatrial"), filepath.Join(dir, "images.tar")
	data, err := os.ReadFile(release)
	err = errors.Join(err, os.WriteFile(program, data, 0o755), os.Symlink(docker, filepath.Join(bin, "docker")))
	if err != nil {
		t.Fatal(err)
	}
	// Nobody finds Go, a compiler or a package manager.
	root := &exec.Cmd{Dir: dir, Env: []string{"HOME=" + os.Getenv("HOME"), "PATH=" + bin}}
	output(t, root, program, "setup", "--save", images, "--no-host-changes")
	before := hostState(t, root, docker)
	t.Run("empty container", func(t *testing.T) {
		image := "localhost/seatrial/install:" + strconv.Itoa(os.Getpid())
		cmd := exec.CommandContext(t.Context(), docker, "import", "--change", "ENV PATH=/bin HOME=/root", "-", image)
		cmd.Stdin = packed(t, map[string]string{"bin/seatrial": program, "bin/docker": docker})
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		defer output(t, root, docker, "rmi", image)
		defer output(t, root, docker, "volume", "rm", installed)
		tryOut(t, root, "/images.tar", docker, "run", "--rm", "--workdir=/root",
			"--volume=/var/run/docker.sock:/var/run/docker.sock", "--volume="+images+":/images.tar:ro",
			"--volume="+installed+":/root", image, "/bin/seatrial")
	})
	t.Run("user in the group docker", func(t *testing.T) {
		admin := &exec.Cmd{Env: os.Environ()}
		output(t, admin, "useradd", "--create-home", "--groups", "docker", installed)
		defer output(t, admin, "userdel", "--remove", installed)
		tryOut(t, as(t, installed, bin), images, program)
	})
	if diff := cmp.Diff(before, hostState(t, root, docker)); diff != "" {
		t.Errorf("this host has changed (-before +after):\n%s", diff)
	}
}

// installed is the name of the user, the volume and the cluster.
const installed = "seatrial-install"

// tryOut loads the images and runs a trial, with the program that argv starts, and looks for nothing left.
func tryOut(t *testing.T, like *exec.Cmd, images string, argv ...string) {
	t.Helper()
	run := func(args ...string) string { return output(t, like, slices.Concat(argv, args)...) }
	if said := run("setup", "--load", images, "--no-host-changes"); !strings.Contains(said, "node image ") {
		t.Errorf("setup --load said %s", said)
	}
	said := run("run", "smoke", "--seed", "18", "--cluster", installed, "--no-host-changes")
	if !strings.Contains(said, "verdict:   PASS") {
		t.Error("no PASS")
	}
}

// as is a command of the user.
func as(t *testing.T, name, path string) *exec.Cmd {
	t.Helper()
	who, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	number := func(text string) uint32 {
		n, parseErr := strconv.ParseUint(text, 10, 32)
		err = errors.Join(err, parseErr)
		return uint32(n)
	}
	groups, groupsErr := who.GroupIds()
	cred := &syscall.Credential{Uid: number(who.Uid), Gid: number(who.Gid)}
	for _, g := range groups {
		cred.Groups = append(cred.Groups, number(g))
	}
	if err := errors.Join(err, groupsErr); err != nil {
		t.Fatal(err)
	}
	return &exec.Cmd{
		Dir: who.HomeDir, Env: []string{"HOME=" + who.HomeDir, "PATH=" + path},
		SysProcAttr: &syscall.SysProcAttr{Credential: cred},
	}
}

// packed is an archive of these files of this host, by their names in it.
func packed(t *testing.T, files map[string]string) *bytes.Buffer {
	t.Helper()
	var to bytes.Buffer
	out := tar.NewWriter(&to)
	for name, path := range files {
		data, err := os.ReadFile(path)
		if err == nil {
			err = out.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))})
		}
		if err == nil {
			_, err = out.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}), out.Close())
	if err != nil {
		t.Fatal(err)
	}
	return &to
}

// hostState is what a trial must leave as it was: packages, settings, limits of the kernel, and what the engine has of
// ours.
func hostState(t *testing.T, root *exec.Cmd, docker string) map[string]string {
	t.Helper()
	state := map[string]string{}
	read := func(path string) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		state[path] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	for _, path := range []string{"/var/lib/dpkg/status", "/proc/sys/fs/inotify/max_user_watches",
		"/proc/sys/fs/inotify/max_user_instances", "/proc/sys/net/ipv4/ip_forward"} {
		if _, err := os.Stat(path); err == nil {
			read(path)
		}
	}
	err := filepath.WalkDir("/etc", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasSuffix(path, "-") { // Useradd keeps such copies.
			read(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]string{
		{"ps", "--all", "--format={{.Names}}"}, {"volume", "ls", "--format={{.Name}}"},
	} {
		argv := slices.Concat([]string{docker}, list, []string{"--filter=name=" + installed})
		state[list[0]] = output(t, root, argv...)
	}
	return state
}

// output runs a program to its end, in the place of another, and returns what it printed.
func output(t *testing.T, like *exec.Cmd, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = like.Env, like.Dir, like.SysProcAttr
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&said, t.Output()), io.MultiWriter(&said, t.Output())
	if err := cmd.Run(); err != nil {
		t.Errorf("%q: %v", argv, err)
	}
	return said.String()
}
