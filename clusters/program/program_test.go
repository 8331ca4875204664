package program

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFindTakesWhatTheVariableNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agent")
	t.Setenv(Agent().Variable, path)
	find := func() (string, error) { return Agent().Find(t.Context(), slog.New(slog.DiscardHandler)) }
	if _, err := find(); err == nil || !strings.Contains(err.Error(), Agent().Variable) {
		t.Errorf("no such file: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := find(); err == nil || !strings.Contains(err.Error(), "not executable") {
		t.Errorf("not executable: %v", err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := find(); err != nil || got != path {
		t.Errorf("Find = %q (%v), want %q", got, err, path)
	}
	t.Setenv(Agent().Variable, dir)
	if _, err := find(); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a directory: %v", err)
	}
}

func TestFindBuilds(t *testing.T) {
	t.Setenv(Agent().Variable, "")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("GOCACHE") == "" {
		t.Setenv("GOCACHE", filepath.Join(cache, "go-build")) // It would move with the next line, and start empty.
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	log := slog.New(slog.DiscardHandler)
	path, err := Agent().Find(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Agent().Find(t.Context(), log)
	if err != nil || again != path {
		t.Errorf("Find = %q (%v), was %q", again, err, path)
	}
	if err := executable(path); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	_, err = Agent().Find(t.Context(), log)
	if err == nil || !strings.Contains(err.Error(), Agent().Variable) || !strings.Contains(err.Error(), "go build") {
		t.Errorf("where there is no module: %v", err)
	}
}

// TestForget deletes the old builds of one program, and nothing else.
func TestForget(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	const hash = "-0123456789abcdef"
	old := now.Add(-2 * unused)
	ages := map[string]time.Time{
		"seatrial" + hash: old, "seatrial-fedcba9876543210": now, "seatrial-disk" + hash: old, "seatrial-build-1": old,
	}
	for name, built := range ages {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o755), os.Chtimes(path, now, built)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Seatrial().forget(dir, now.Add(-unused)); err != nil {
		t.Fatal(err)
	}
	for name := range ages {
		if _, err := os.Stat(filepath.Join(dir, name)); (err != nil) != (name == "seatrial"+hash) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlace puts what a release carries into the cache once, and says what is wrong there.
func TestPlace(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	files := tar.NewWriter(compressed)
	for _, name := range []string{Agent().Name, Disk().Name} {
		header := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(name)), Typeflag: tar.TypeReg}
		if err := files.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(files.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	agent, err := Agent().place(archive.String())
	if err != nil {
		t.Fatal(err)
	}
	disk, err := Disk().place(archive.String())
	if err != nil || filepath.Dir(disk) != filepath.Dir(agent) {
		t.Errorf("the disk driver is at %q (%v), the agent at %q", disk, err, agent)
	}
	if text, err := os.ReadFile(agent); err != nil || string(text) != Agent().Name || executable(agent) != nil {
		t.Errorf("the agent is %q (%v)", text, err)
	}
	if err := os.Remove(agent); err != nil {
		t.Fatal(err)
	}
	if _, err := Agent().place(archive.String()); err == nil || !strings.Contains(err.Error(), filepath.Dir(agent)) {
		t.Errorf("a file is missing in the cache: %v", err)
	}
	if _, err := Agent().place("no archive"); err == nil {
		t.Error("no archive is placed")
	}
	left, err := os.ReadDir(filepath.Dir(filepath.Dir(agent)))
	if err != nil || len(left) != 1 {
		t.Errorf("left in the cache: %v (%v)", left, err)
	}
}

// TestMakefileBuildsAll: a release carries every program that is looked for, except seatrial itself.
func TestMakefileBuildsAll(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(makefile), "\nPROGRAMS = ")
	list, _, _ = strings.Cut(list, "\nARCHITECTURES")
	var want []string
	for _, p := range []Program{Agent(), Disk(), EngineCheck(), MySQLStart(), Offline(), RuncWrap()} {
		want = append(want, p.Name+"="+strings.TrimPrefix(p.Source, module))
	}
	got := strings.Fields(strings.ReplaceAll(list, "\\", ""))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("PROGRAMS of the Makefile: %q, want %q", got, want)
	}
}
