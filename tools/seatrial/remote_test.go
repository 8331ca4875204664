package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/e2e/bucket"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// s3 is a real S3 server with one bucket.
type s3 struct {
	at, dir, program string
	server           *exec.Cmd
}

func newS3(t *testing.T) *s3 {
	t.Helper()
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: builds and runs an S3 server; set SEATRIAL_E2E=1")
	}
	return s3At(t, "127.0.0.1")
}

// s3At serves at an address of this host.
func s3At(t *testing.T, address string) *s3 {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "night")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "watch-over-all")
	path, err := exec.CommandContext(t.Context(), "go", "-C", "../versitygw", "tool", "-n", "versitygw").Output()
	if err != nil {
		t.Fatalf("build the S3 server: %v", err)
	}
	s := &s3{dir: t.TempDir(), program: strings.TrimSpace(string(path))}
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s.at = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	t.Cleanup(func() { s.stop(t) })
	client, err := minio.New(s.at, &minio.Options{Creds: credentials.NewEnvAWS()})
	if err != nil {
		t.Fatal(err)
	}
	err = await.Until(t.Context(), "a bucket", 100*time.Millisecond, time.Minute,
		func(ctx context.Context) (bool, string, error) {
			err := client.MakeBucket(ctx, "nights", minio.MakeBucketOptions{})
			return err == nil, "", err
		})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *s3) start(t *testing.T) {
	t.Helper()
	s.server = exec.CommandContext(context.WithoutCancel(t.Context()), s.program, "--port", s.at, "--access", "night",
		"--secret", "watch-over-all", "--quiet", "posix", "--sidecar", s.sidecar(t), filepath.Join(s.dir, "data"))
	if err := s.server.Start(); err != nil {
		t.Fatal(err)
	}
}

// sidecar keeps what the server else keeps in extended attributes, which not every file system has.
func (s *s3) sidecar(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(s.dir, "meta")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (s *s3) stop(t *testing.T) {
	t.Helper()
	if err := s.server.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = s.server.Wait() // It was killed.
}

func (s *s3) url(prefix string) string {
	return "s3://nights/" + prefix + "?endpoint=http://" + s.at
}

// TestANightGoesOnOnAnotherMachine kills the harness at every step there is; another one, with nothing but the bucket,
// goes on. In the end each unit has its verdict, and no trial that was stored was carried out again.
func TestANightGoesOnOnAnotherMachine(t *testing.T) {
	s := newS3(t)
	l := nightList(t, "set-scale-light,set-burst-light")
	steps := 100
	for kill := 0; kill <= steps; kill++ {
		url := s.url(fmt.Sprintf("teams/%d", kill))
		h := &harness{root: t.TempDir(), kill: kill, whole: map[string]int{}, now: time.Now(), remote: url}
		if dead := h.night(t, l); dead {
			h.kill, h.root = 0, t.TempDir()
			h.night(t, l)
		} else if kill == 0 {
			steps = h.steps
		}
		out := t.TempDir()
		got := ask(t, "nightly", "merge", url, "--out", out)
		if want := fmt.Sprintf("verdict: PASS, %d of %[1]d as expected", len(l.Units)); got.code != 0 ||
			!strings.Contains(got.stdout, want) {
			t.Errorf("killed at step %d of %d: exit code %d: %s%s", kill, steps, got.code, got.stdout, got.stderr)
		}
		want := len(l.Units)
		if at := kill % 4; kill > 0 && (at == 3 || at == 0) {
			want++ // It was judged on the machine that is gone, and not stored yet.
		}
		sum := 0
		for _, n := range h.whole {
			sum += n
		}
		if sum != want {
			t.Errorf("killed at step %d of %d: %d verdicts, want %d", kill, steps, sum, want)
		}
		s.holds(t, fmt.Sprintf("teams/%d/nightly/index.html", kill))
	}
}

// holds fails the test unless the bucket has an object.
func (s *s3) holds(t *testing.T, name string) {
	t.Helper()
	client, err := minio.New(s.at, &minio.Options{Creds: credentials.NewEnvAWS()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.StatObject(t.Context(), "nights", name, minio.StatObjectOptions{}); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// TestABucketHasWhatItsMachinesHave: two machines that both have a unit lose no attempt of each other, a store that is
// away for a while loses nothing, and the runs are there with their results.
func TestABucketHasWhatItsMachinesHave(t *testing.T) {
	s := newS3(t)
	l := nightList(t, "light")
	var all []nightly.Result
	for machine := range 2 {
		root := t.TempDir()
		night := rundir.OpenNight(root)
		unlock, err := night.Begin(l, "test")
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		remote, err := openRemote(t.Context(), "--store", s.url("two"))
		if err != nil {
			t.Fatal(err)
		}
		if machine == 0 { // The other one does not look before it writes.
			if err := remote.begin(t.Context(), night); err != nil {
				t.Fatal(err)
			}
		}
		for _, u := range l.Units {
			r := madeUp(u)
			for i := range r.Attempts {
				r.Attempts[i].Run = fmt.Sprintf("%s/%d-%d", u.Name, machine, i)
				leaveRun(t, filepath.Join(root, r.Attempts[i].Run))
			}
			if err := night.Keep(r); err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		if machine == 1 {
			s.stop(t)
			back := time.AfterFunc(3*time.Second, func() { s.start(t) })
			defer back.Stop()
		}
		for range 2 { // Again: nothing changes.
			if err := remote.push(t.Context(), night, root, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := nightly.Merge(l, all)
	out := t.TempDir()
	if got := ask(t, "nightly", "merge", s.url("two"), "--out", out); got.code != exitViolated {
		t.Fatalf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	results, err := rundir.OpenNight(out).Results()
	if err != nil {
		t.Fatal(err)
	}
	got := nightly.Merge(l, results)
	if got.Trials != want.Trials || got.Trials == 0 || got.Verdict != check.Fail {
		t.Errorf("%d trials, %s, want %d and FAIL", got.Trials, got.Verdict, want.Trials)
	}
	for _, r := range all {
		for _, a := range r.Attempts {
			s.holds(t, "two/"+a.Run+"/"+rundir.VerdictFile)
		}
	}
}

// TestRunsOfABucketAreJudged: they are found, fetched and judged, and nothing of them is left on this machine.
func TestRunsOfABucketAreJudged(t *testing.T) {
	s := newS3(t)
	root := savedBelow(t, scaled, settled)
	for _, prefix := range []string{"", "teams/db"} {
		b, err := bucket.Open(t.Context(), s.url(prefix))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{scaled, settled} {
			for _, file := range []string{rundir.RunFile, rundir.PlanFile, rundir.HistoryFile, rundir.VerdictFile} {
				data, err := os.ReadFile(filepath.Join(root, name, "run", file))
				if err != nil {
					t.Fatal(err)
				}
				if err := b.Put(t.Context(), name+"/run/"+file, data, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
		}
		tmp := t.TempDir()
		t.Setenv("TMPDIR", tmp)
		got := ask(t, "nightly", "judge", s.url(prefix), "--store", s.url("judged"+prefix), "--out", t.TempDir())
		if got.code != exitPass || !strings.Contains(got.stdout, "verdict: PASS, 2 of 2 as expected") {
			t.Errorf("prefix %q: %+v", prefix, got)
		}
		got = ask(t, "nightly", "judge", s.url(prefix), "--store", s.url(prefix+"/"), "--out", t.TempDir())
		if got.code != exitArguments || !strings.Contains(got.stderr, "--store: ") {
			t.Errorf("prefix %q, runs and results in one place: %+v", prefix, got)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		s.holds(t, "judged"+prefix+"/nightly/index.html")
	}
}

func leaveRun(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, rundir.StepsDir), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{rundir.VerdictFile, rundir.ReserveFile, rundir.StepsDir + "/01.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAStoreIsRefused before anything is touched: no bucket, a wrong key, nobody there.
func TestAStoreIsRefused(t *testing.T) {
	s := newS3(t)
	for name, tt := range map[string]struct{ url, secret, says string }{
		"no such bucket": {"s3://days/x?endpoint=http://" + s.at, "watch-over-all", "there is no such bucket"},
		"a wrong key":    {s.url("x"), "let-me-in", "signature"},
		"nobody there":   {"s3://nights/x?endpoint=http://127.0.0.1:1", "watch-over-all", "connection refused"},
	} {
		t.Setenv("AWS_SECRET_ACCESS_KEY", tt.secret)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := openRemote(ctx, "--store", tt.url)
		var exit *exitError
		said := strings.ToLower(fmt.Sprint(err))
		if !errors.As(err, &exit) || exit.code != exitArguments || !strings.Contains(said, tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestABadStoreIsRefused: nothing is made and nobody is asked.
func TestABadStoreIsRefused(t *testing.T) {
	for url, says := range map[string]string{
		"runs":                           "use s3://BUCKET/PREFIX",
		"gs://nights/x":                  "use s3://BUCKET/PREFIX",
		"s3:///x":                        "use s3://BUCKET/PREFIX",
		"s3://key:secret@nights/x":       "use s3://BUCKET/PREFIX",
		"s3://nights/x?endpoint=minio":   "no URL with http:// or https://",
		"s3://nights/x?end=http://minio": `unknown parameter "end"`,
	} {
		u := newUntouched(t)
		got := u.program(t, "nightly", "--runs", u.runs, "--cluster", "seatrial-never", "--store", url)
		if got.code != exitArguments || !strings.Contains(got.stderr, "--store: ") ||
			!strings.Contains(got.stderr, says) {
			t.Errorf("%s: %+v", url, got)
		}
		for _, trace := range u.traces(t) {
			t.Errorf("%s left %s", url, trace)
		}
	}
}
