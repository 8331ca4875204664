package nodeimage

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// maxBytes is the size that a node image without preloaded images may have.
const maxBytes = 1_200_000_000

// TestRealImage makes the real node image, which takes long only the first time, and holds what kind relies on.
func TestRealImage(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: the real node image: set SEATRIAL_E2E=1, with a container engine")
	}
	ctx := t.Context()
	engine := findEngine(ctx, t)
	cache, err := store.Default()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		CacheDir: cache.Dir, Source: Build, Engine: engine,
		KubernetesVersion: os.Getenv("SEATRIAL_KUBERNETES_VERSION"),
		Progress:          t.Output(),
	}
	first, err := Ensure(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	second, err := Ensure(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 5*time.Second || second.Ref != first.Ref {
		t.Errorf("second time: %+v after %s, want %s at once", second, took, first.Ref)
	}
	size, err := strconv.Atoi(ask(ctx, t, engine, "image", "inspect", "--format", "{{.Size}}", first.Ref))
	if err != nil || size > maxBytes {
		t.Errorf("size = %d, %v, want at most %d", size, err, maxBytes)
	}
	t.Logf("%s has %d MB", first.Ref, size/1_000_000)
	config := ask(ctx, t, engine, "image", "inspect", "--format",
		"{{.Config.StopSignal}} {{.Config.Entrypoint}} {{.Config.Env}}", first.Ref)
	for _, want := range []string{"SIGRTMIN+3", "[/usr/local/bin/entrypoint /sbin/init]", "container=docker"} {
		if !strings.Contains(config, want) {
			t.Errorf("configuration %q lacks %s", config, want)
		}
	}
	for entrypoint, want := range map[string]string{
		"kubelet": "Kubernetes " + first.KubernetesVersion, "containerd": containerdVersion,
		"runc": "libseccomp", "xfs_io": "xfs_io version", "nft": "nftables",
	} {
		flag := "--version"
		if entrypoint == "xfs_io" {
			flag = "-V"
		}
		got := ask(ctx, t, engine, "run", "--rm", "--entrypoint", entrypoint, first.Ref, flag)
		if !strings.Contains(got, want) {
			t.Errorf("%s in the image says %q, want %q", entrypoint, got, want)
		}
	}
}

// findEngine returns the first container engine that answers.
func findEngine(ctx context.Context, t *testing.T) string {
	t.Helper()
	for _, name := range []string{"docker", "podman", "nerdctl"} {
		if (proc.Exec{}).Run(ctx, proc.Command{Args: []string{name, "info"}, Stdout: &bytes.Buffer{}}) == nil {
			return name
		}
	}
	t.Fatal("no container engine answers")
	return ""
}

func ask(ctx context.Context, t *testing.T, engine string, args ...string) string {
	t.Helper()
	out, err := proc.Output(ctx, proc.Exec{}, proc.Command{Args: append([]string{engine}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
