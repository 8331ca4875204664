package system

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	out, err := System{}.Run(t.Context(), "echo", "a", "b c")
	if err != nil || string(out) != "a b c\n" {
		t.Errorf("Run = %q, %v", out, err)
	}
	out, err = System{}.RunWith(t.Context(), strings.NewReader("in"), "cat")
	if err != nil || string(out) != "in" {
		t.Errorf("RunWith = %q, %v", out, err)
	}
	_, err = System{}.Run(t.Context(), "sh", "-c", "echo much; echo why >&2; exit 3")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.HasSuffix(err.Error(), ": why") {
		t.Errorf("Run = %v, want exit code 3 and the last words", err)
	}
	if _, err := (System{}).Run(t.Context(), "no-such-program-here"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("Run = %v, want %v", err, exec.ErrNotFound)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := (System{}).Run(ctx, "sleep", "60"); !errors.Is(err, why) {
		t.Errorf("Run = %v, want %v in it", err, why)
	}
}

func TestDiskFree(t *testing.T) {
	if free, err := (System{}).DiskFree(t.TempDir()); err != nil || free == 0 {
		t.Errorf("DiskFree = %d, %v", free, err)
	}
	if _, err := (System{}).DiskFree(t.TempDir() + "/none"); err == nil {
		t.Error("a path that is not there has free space")
	}
}
