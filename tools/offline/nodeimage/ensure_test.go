package nodeimage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/steps"
)

// fakeHost carries out commands in memory: go builds write empty programs, the engine knows some images.
type fakeHost struct {
	images   map[string]bool
	noGo     bool
	compiled []string
	pulls    int
	pull     func(ctx context.Context, c proc.Command) error
	onBuild  func(component string) error
}

// Run carries out one command.
func (h *fakeHost) Run(ctx context.Context, c proc.Command) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch line := strings.Join(c.Args, " "); {
	case line == "go env GOVERSION" && h.noGo:
		return errors.New("no go here")
	case line == "go env GOVERSION":
		_, err := c.Stdout.Write([]byte("go1.26.8\n"))
		return err
	case strings.HasPrefix(line, "go build"):
		return h.compile(c)
	case strings.HasSuffix(line, " --version"):
		return nil
	case strings.HasPrefix(line, "mmdebstrap"):
		i := slices.IndexFunc(c.Args, func(a string) bool { return strings.HasSuffix(a, "root.tar") })
		h.compiled = append(h.compiled, "root")
		return os.WriteFile(c.Args[i], nil, 0o644)
	case strings.HasPrefix(line, "engine image inspect "):
		if h.images[c.Args[3]] {
			return nil
		}
		return errors.New("no such image")
	case strings.HasPrefix(line, "engine pull "):
		h.pulls++
		return h.pull(ctx, c)
	case strings.HasPrefix(line, "engine run ") && strings.HasSuffix(line, " /kind/version"):
		version := offline.DefaultKubernetesVersion
		if strings.Contains(line, "/other@") {
			version = "v1.35.0"
		}
		_, err := c.Stdout.Write([]byte(version + "\n"))
		return err
	case strings.HasPrefix(line, "pkg-config"), strings.HasPrefix(line, "apt-get"):
		return nil
	default:
		return fmt.Errorf("unexpected command %q", line)
	}
}

func (h *fakeHost) compile(c proc.Command) error {
	out := c.Args[slices.Index(c.Args, "-o")+1]
	dir, packages := out, c.Args[slices.Index(c.Args, "-o")+2:]
	component := filepath.Base(strings.TrimSuffix(out, "/"))
	if !strings.HasSuffix(out, "/") {
		dir = filepath.Dir(out)
		component = filepath.Base(dir)
	}
	component = component[:strings.LastIndex(component, "-")]
	if h.onBuild != nil {
		if err := h.onBuild(component); err != nil {
			return err
		}
	}
	h.compiled = append(h.compiled, component)
	if !strings.HasSuffix(out, "/") {
		return os.WriteFile(out, nil, 0o755)
	}
	for _, p := range packages {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(p)), nil, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func testBuilder(t *testing.T, h *fakeHost, change func(*Options)) *builder {
	t.Helper()
	o := Options{Engine: "engine", CacheDir: t.TempDir(), Progress: io.Discard}
	if change != nil {
		change(&o)
	}
	b, err := newBuilder(o, h)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBuildResumes interrupts a build in the middle and holds that the next one does only what is missing.
func TestBuildResumes(t *testing.T) {
	h := &fakeHost{}
	ctx, cancel := context.WithCancel(t.Context())
	h.onBuild = func(component string) error {
		if component == "containerd" {
			cancel()
			return ctx.Err()
		}
		return nil
	}
	var said bytes.Buffer
	b := testBuilder(t, h, func(o *Options) { o.Progress = &said })
	// The fake host has no real programs to assemble, so only the steps before are run.
	compile := func(ctx context.Context) error {
		all, err := b.steps(Image{Inputs: "0123456789abcdef"})
		if err != nil {
			t.Fatal(err)
		}
		return steps.Run(ctx, b.opts.Progress, "node image", all[:len(all)-2])
	}
	if err := compile(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("error = %v, want the interruption", err)
	}
	if got := strings.Join(h.compiled, " "); got != "root kubernetes podnet pause" {
		t.Errorf("before the interruption: %s", got)
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "compile containerd v2.3.4: failed") {
		t.Errorf("last line = %q", last)
	}
	h.compiled, h.onBuild = nil, nil
	said.Reset()
	if err := compile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(h.compiled, " "); got != "containerd runc cni-plugins etcd coredns" {
		t.Errorf("after the interruption: %s", got)
	}
	first, _, _ := strings.Cut(said.String(), "\n")
	if !strings.Contains(first, "Debian root file system: already there") {
		t.Errorf("first line = %q", first)
	}
	all, err := b.steps(Image{Inputs: "0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	text := steps.Outlook(all)
	if !strings.Contains(text, "(assemble image, load image into engine)") || strings.Contains(text, "compile") {
		t.Errorf("outlook = %q, want only what is missing", text)
	}
}

func TestFailingComponentIsNamed(t *testing.T) {
	h := &fakeHost{onBuild: func(component string) error {
		if component == "etcd" {
			return errors.New("exit status 1")
		}
		return nil
	}}
	b := testBuilder(t, h, func(o *Options) { o.Source = Build })
	_, err := b.ensure(t.Context())
	if err == nil {
		t.Fatal("a failing compiler gives no error")
	}
	log := filepath.Join(b.opts.CacheDir, "logs", "etcd.log")
	for _, want := range []string{"component etcd", log, "the same command resumes"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

func TestRefCoversEveryInput(t *testing.T) {
	h := &fakeHost{}
	ref := func(change func(*Options)) string {
		img, err := testBuilder(t, h, change).target()
		if err != nil {
			t.Fatal(err)
		}
		return img.Ref
	}
	base := ref(nil)
	if again := ref(func(o *Options) { o.Database = offline.Database{} }); again != base {
		t.Errorf("the same inputs give %s and %s", base, again)
	}
	const prefix = "localhost/seatrial/node:v1.37.0-"
	if !strings.HasPrefix(base, prefix) || len(base) != len(prefix)+12 {
		t.Errorf("ref = %s", base)
	}
	seen := map[string]bool{base: true}
	for i, change := range []func(*Options){
		func(o *Options) { o.KubernetesVersion = "v1.36.3" },
		func(o *Options) { o.Database = offline.Database{Path: "/a.tar", Digest: "1"} },
		func(o *Options) { o.Database = offline.Database{Path: "/a.tar", Digest: "2"} },
	} {
		got := ref(change)
		if seen[got] {
			t.Errorf("change %d gives the ref of another: %s", i, got)
		}
		seen[got] = true
	}
	moved := ref(func(o *Options) { o.Database = offline.Database{Path: "/elsewhere.tar", Digest: "1"} })
	if !seen[moved] {
		t.Error("where an archive lies must not change the ref")
	}
	b := testBuilder(t, h, nil)
	b.compiler.GoVersion = "go1.99"
	if img, err := b.target(); err != nil || img.Ref == base {
		t.Errorf("another Go gives %s, %v", img.Ref, err)
	}
}

func TestSources(t *testing.T) {
	published := publishedImages()[offline.DefaultKubernetesVersion]
	refuse := func(context.Context, proc.Command) error { return errors.New("no such host") }
	allow := func(_ context.Context, c proc.Command) error { _, err := c.Stdout.Write([]byte("layer\n")); return err }
	built, err := testBuilder(t, &fakeHost{}, nil).target()
	if err != nil {
		t.Fatal(err)
	}
	const named = "host:5000/node:v1.37.0"
	other := "host/other@sha256:" + strings.Repeat("0", 64)
	tests := []struct {
		name   string
		source Source
		images []string
		pull   func(context.Context, proc.Command) error
		want   string // Ref, or a word of the error.
		pulls  int
	}{
		{"published is there", Auto, []string{published}, refuse, published, 0},
		{"both are there", Auto, []string{published, built.Ref}, refuse, published, 0},
		{"built is there", Auto, []string{built.Ref}, allow, built.Ref, 0},
		{"published can be had", Auto, nil, allow, published, 1},
		{"published forced", Published, nil, allow, published, 1},
		{"published forced and refused", Published, []string{built.Ref}, refuse, "no such host", 1},
		{"build forced", Build, []string{published, built.Ref}, allow, built.Ref, 0},
		{"named", named, nil, allow, named, 1},
		{"named and there", named, []string{named}, refuse, named, 0},
		{"named and refused", named, []string{built.Ref}, refuse, "no such host", 1},
		{"another version", Source(other), nil, allow, "--kubernetes-version v1.35.0", 1},
	}
	for _, test := range tests {
		h := &fakeHost{images: make(map[string]bool), pull: test.pull}
		for _, ref := range test.images {
			h.images[ref] = true
		}
		img, err := testBuilder(t, h, func(o *Options) { o.Source = test.source }).ensure(t.Context())
		if img.Ref != test.want && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: image %q, error %v, want %q", test.name, img.Ref, err, test.want)
		}
		if h.pulls != test.pulls {
			t.Errorf("%s: %d pulls, want %d", test.name, h.pulls, test.pulls)
		}
	}
}

func TestWithoutGo(t *testing.T) {
	h := &fakeHost{noGo: true, pull: func(context.Context, proc.Command) error { return nil }}
	img, err := testBuilder(t, h, nil).ensure(t.Context())
	if err != nil || img.Source != Published {
		t.Errorf("image = %+v, %v: the published image needs no Go", img, err)
	}
	h.pull = func(context.Context, proc.Command) error { return errors.New("no such host") }
	_, err = testBuilder(t, h, nil).ensure(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no go here") || !strings.Contains(err.Error(), "no such host") {
		t.Errorf("error = %v, want it to say why neither way works", err)
	}
}

func TestPullIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := 0
		h := &fakeHost{pull: func(ctx context.Context, c proc.Command) error {
			for range lines {
				select {
				case <-time.After(time.Minute):
					_, _ = c.Stdout.Write([]byte("layer\n"))
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		b := testBuilder(t, h, func(o *Options) { o.Source = Published })
		start := time.Now()
		_, err := b.ensure(t.Context())
		const bound = 20 * time.Second
		if err == nil || !strings.Contains(err.Error(), "nothing came within 20s") || time.Since(start) != bound {
			t.Errorf("silent pull: %v after %s", err, time.Since(start))
		}
		h.pull = func(ctx context.Context, c proc.Command) error {
			_, _ = c.Stdout.Write([]byte("first\n"))
			for range 3 {
				<-time.After(layer - time.Minute)
				_, _ = c.Stdout.Write([]byte("layer\n"))
			}
			<-ctx.Done()
			return ctx.Err()
		}
		start = time.Now()
		_, err = b.ensure(t.Context())
		passed := time.Since(start)
		if err == nil || !strings.Contains(err.Error(), "no progress for 20m0s") || passed != 4*layer-3*time.Minute {
			t.Errorf("stalled pull: %v after %s", err, passed)
		}
	})
}
