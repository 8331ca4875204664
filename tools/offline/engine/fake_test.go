package engine

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
)

// fakeMachine is a host of the tests' own: its files, its programs and what its commands say.
type fakeMachine struct {
	files    map[string]string
	programs map[string]string // By name, with their path.
	env      map[string]string
	uid      int
	answer   func(argv []string) (string, error) // Nil refuses every command.
	ran      []string
}

func (m *fakeMachine) ReadFile(path string) ([]byte, error) {
	text, ok := m.files[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(text), nil
}

func (m *fakeMachine) Getenv(name string) string { return m.env[name] }
func (m *fakeMachine) UserID() int               { return m.uid }

func (m *fakeMachine) LookPath(name string) (string, error) {
	if path, ok := m.programs[name]; ok {
		return path, nil
	}
	return "", fmt.Errorf("find %q: %w", name, fs.ErrNotExist)
}

func (m *fakeMachine) Run(ctx context.Context, argv ...string) ([]byte, error) {
	return m.RunWith(ctx, nil, argv...)
}

func (m *fakeMachine) RunWith(ctx context.Context, input io.Reader, argv ...string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.ran = append(m.ran, strings.Join(argv, " "))
	if m.answer == nil {
		return nil, fmt.Errorf("run %q: refused", argv)
	}
	text, err := m.answer(argv)
	return []byte(text), err
}

// fakeOptions are options on the fake machine with a state directory of the test's.
func fakeOptions(t *testing.T, machine *fakeMachine) Options {
	t.Helper()
	options, err := Options{
		Machine: machine, StateDir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Out: io.Discard,
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	options.DaemonConfig = options.StateDir + "/etc/daemon.json"
	return options
}
