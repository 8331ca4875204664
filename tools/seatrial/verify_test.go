package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/e2e/certify/apitest"
	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/certify/certificate"
	"github.com/seatrial/seatrial/e2e/certify/reader"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
)

const recordedCertificate = "../../fixtures/certified"

// TestRecordedCertificate: a certificate of a real cluster, checked as its reader would.
func TestRecordedCertificate(t *testing.T) {
	args := []string{"verify", recordedCertificate + "/certificate.json", recordedCertificate + "/runs",
		"--key", recordedCertificate + "/key.pub"}
	got := ask(t, args...)
	if got.code != exitPass || !strings.Contains(got.stdout, "verdict:   PASS") ||
		!strings.Contains(got.stderr, "genuine: signed by SHA256:") {
		t.Errorf("%+v", got)
	}
}

// issued is a certificate in a directory with its runs and keys.
type issued struct {
	file, runs, private, public string
	run                         string // The directory of its run.
}

// issue signs a certificate of one recorded run and of the cluster of lines.
func issue(t *testing.T, recorded string, cluster []string, change func(*certificate.Certificate)) issued {
	t.Helper()
	dir := t.TempDir()
	out := issued{
		file: filepath.Join(dir, "out", certificateFile), runs: filepath.Join(dir, "runs"),
		private: filepath.Join(dir, "key"), public: filepath.Join(dir, "key.pub"),
	}
	out.run = filepath.Join(out.runs, "smoke", "a-run")
	if err := os.CopyFS(out.run, os.DirFS(filepath.Join("../../fixtures/recorded", recorded))); err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string][]byte{
		out.private: pem.EncodeToMemory(block), out.public: ssh.MarshalAuthorizedKey(line),
	} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, err := signingKey(out.private)
	if err != nil {
		t.Fatal(err)
	}
	at, err := rundir.Open(out.run)
	if err != nil {
		t.Fatal(err)
	}
	judged, err := judgedRun(out.runs, at)
	if err != nil {
		t.Fatal(err)
	}
	c := certificate.Make(certificate.Head{
		Profile: "quick", Cluster: cluster, Audit: audit.Report{From: "v1.37.0", To: "v1.37", Verdict: check.Pass},
	}, []certificate.Judged{judged}, trial.AllParts().Checks)
	if change != nil {
		change(&c)
	}
	if err := writeCertificate(filepath.Dir(out.file), out.runs, c, key); err != nil {
		t.Fatal(err)
	}
	return out
}

func (i issued) verify(t *testing.T, more ...string) answer {
	t.Helper()
	return ask(t, append([]string{"verify", i.file, i.runs, "--key", i.public}, more...)...)
}

// TestVerify has each exit code.
func TestVerify(t *testing.T) {
	const good, bad, unsure = "smoke-861908-pass", "selftest-deleted-row-42-fail", "selftest-ipv6-open-42-unknown"
	for name, c := range map[string]struct {
		run    string
		change func(*certificate.Certificate)
		spoil  func(*testing.T, issued)
		code   int
		want   string // In what is printed.
	}{
		"genuine":          {good, nil, nil, exitPass, "genuine: signed by SHA256:"},
		"genuine, FAIL":    {bad, nil, nil, exitViolated, "genuine: signed by SHA256:"},
		"genuine, UNKNOWN": {unsure, nil, nil, exitUnknown, "genuine: signed by SHA256:"},
		"a FAIL signed as PASS": {bad, func(c *certificate.Certificate) {
			c.Verdict = check.Pass
		}, nil, exitViolated, "REJECTED: the runs do not show what it says: verdict: signed is PASS, and judged " +
			"again it is FAIL"},
		"a check left out": {bad, func(c *certificate.Certificate) {
			left := func(p certificate.Promise) bool { return p.Verdict == check.Fail }
			c.Promises = slices.DeleteFunc(c.Promises, left)
			c.Verdict, c.Runs[0].Verdict = check.Pass, check.Pass
		}, nil, exitViolated, "REJECTED: run smoke/a-run: check rows, which the certificate leaves out, is FAIL"},
		"evidence made up": {good, func(c *certificate.Certificate) {
			c.Promises[0].Evidence += 1000
		}, nil, exitViolated, "REJECTED: the runs do not show what it says: promise "},
		"a run counted twice": {good, func(c *certificate.Certificate) {
			c.Runs = append(c.Runs, c.Runs[0])
			for i := range c.Promises {
				c.Promises[i].Evidence, c.Promises[i].Runs = 2*c.Promises[i].Evidence, 2
			}
			for i := range c.Faults {
				f := &c.Faults[i]
				f.Planned, f.Shown, f.Seconds = 2*f.Planned, 2*f.Shown, 2*f.Seconds
			}
		}, nil, exitViolated, "REJECTED: runs smoke/a-run and smoke/a-run are the same trial, counted twice"},
		"an audit that contradicts itself": {good, func(c *certificate.Certificate) {
			c.Audit.Findings = []audit.Finding{{Rule: "two-attachments", Severity: audit.Danger}}
		}, nil, exitViolated, "REJECTED: the runs do not show what it says: verdict: signed is PASS, and judged " +
			"again it is FAIL"},
		"a run elsewhere": {good, func(c *certificate.Certificate) {
			c.Runs[0].Path = "../../etc"
		}, nil, exitViolated, `REJECTED: run "../../etc" is not below the directory of the runs`},
		"a run that is gone": {good, nil, func(t *testing.T, i issued) {
			if err := os.RemoveAll(i.run); err != nil {
				t.Fatal(err)
			}
		}, exitViolated, "REJECTED: open run directory"},
		"a verdict that was written over": {bad, nil, func(t *testing.T, i issued) {
			spoil(t, filepath.Join(i.run, rundir.VerdictFile), func(text []byte) []byte {
				return []byte(strings.ReplaceAll(string(text), "FAIL", "PASS"))
			})
		}, exitViolated, "REJECTED: run smoke/a-run is not the one that was signed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := issue(t, c.run, []string{"API server v1.37.0"}, c.change)
			if c.spoil != nil {
				c.spoil(t, i)
			}
			got := i.verify(t)
			if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func spoil(t testing.TB, file string, change func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, change(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestVerifyRejectsEveryFlippedByte in the certificate, and in each file that a run is judged by.
func TestVerifyRejectsEveryFlippedByte(t *testing.T) {
	i := issue(t, "smoke-861908-pass", []string{"API server v1.37.0"}, nil)
	files := []string{i.file}
	for _, name := range []string{rundir.HistoryFile, rundir.PlanFile, rundir.RunFile, rundir.VerdictFile} {
		files = append(files, filepath.Join(i.run, name))
	}
	rapid.Check(t, func(r *rapid.T) {
		file := rapid.SampledFrom(files).Draw(r, "file")
		text, err := os.ReadFile(file)
		if err != nil {
			r.Fatal(err)
		}
		at, bit := rapid.IntRange(0, len(text)-1).Draw(r, "byte"), rapid.IntRange(0, 7).Draw(r, "bit")
		bad := slices.Clone(text)
		bad[at] ^= 1 << bit
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			r.Fatal(err)
		}
		got := i.verify(t)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			r.Fatal(err)
		}
		if got.code != exitViolated || !strings.Contains(got.stderr, "REJECTED: ") {
			r.Fatalf("bit %d of byte %d of %s: %+v", bit, at, file, got)
		}
	})
	if got := i.verify(t); got.code != exitPass {
		t.Errorf("after all was put back: %+v", got)
	}
}

// TestVerifyComparesTheCluster: void once the fingerprint is another one.
func TestVerifyComparesTheCluster(t *testing.T) {
	s := apitest.Serve(t)
	s.Version = "v1.37.0"
	config := s.Kubeconfig(t)
	r, err := reader.Open(t.Context(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lines, err := audit.Fingerprint(cluster)
	if err != nil {
		t.Fatal(err)
	}
	i := issue(t, "smoke-861908-pass", lines, nil)
	if got := i.verify(t, "--kubeconfig", config); got.code != exitPass {
		t.Errorf("the same cluster: %+v", got)
	}
	s.Lists["/api/v1/nodes"] = []any{corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one-more"}}}
	got := i.verify(t, "--kubeconfig", config)
	if got.code != exitViolated || !strings.Contains(got.stderr, "it is void") ||
		!strings.Contains(got.stderr, "one-more") {
		t.Errorf("a node more: %+v", got)
	}
	s.Wrong["/api/v1/nodes"] = 403
	if got := i.verify(t, "--kubeconfig", config); got.code != exitHarness {
		t.Errorf("nodes that may not be read: %+v", got)
	}
}

// TestCertifyRunRefusesATargetBeforeItTouchesTheCluster: only the version of an existing cluster is read.
func TestCertifyRunRefusesATargetBeforeItTouchesTheCluster(t *testing.T) {
	i, s := issue(t, "smoke-861908-pass", nil, nil), apitest.Serve(t)
	got := ask(t, "certify", "run", "--key", i.private, "--to", "v1.35", "--kubeconfig", s.Kubeconfig(t),
		"--yes-context", "test", "--runs", i.runs)
	if got.code != exitArguments || !strings.Contains(got.stderr, `--to: "v1.35" is a downgrade of v1.36.3`) {
		t.Errorf("%+v", got)
	}
	if asked := s.Asked(); len(asked) != 1 || !strings.HasPrefix(asked[0], "GET /version") {
		t.Errorf("requests %v", asked)
	}
}

// TestPublicFile: the hint names the public key that ssh-keygen or cosign wrote.
func TestPublicFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"seatrial.key.pub", "cosign.pub"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for private, want := range map[string]string{"seatrial.key": "seatrial.key.pub", "cosign.key": "cosign.pub"} {
		if got := publicFile(filepath.Join(dir, private)); got != filepath.Join(dir, want) {
			t.Errorf("%s: %s, want %s", private, got, want)
		}
	}
	if got := publicFile(filepath.Join(dir, "pkcs8.pem")); got != "PUBLIC_KEY" {
		t.Errorf("%s", got)
	}
}

// TestCertifyRefuses: nothing is touched, neither an engine nor a cluster.
func TestCertifyRefuses(t *testing.T) {
	i := issue(t, "smoke-861908-pass", nil, nil)
	for want, args := range map[string][]string{
		"--key is missing: the certificate is signed": {"certify", "run"},
		"--key: open /no/such/key":                    {"certify", "run", "--key", "/no/such/key"},
		"no key found":                                {"certify", "run", "--key", i.public},
		`--profile is "fast": give quick, standard or long`: {"certify", "run", "--key", i.private,
			"--profile", "fast"},
		`--to: version "v1.99" is not known`:      {"certify", "run", "--key", i.private, "--to", "v1.99"},
		`--to: "v1.36" is a downgrade of v1.37.0`: {"certify", "run", "--key", i.private, "--to", "v1.36"},
		"nothing was touched: to carry this plan out": {"certify", "run", "--key", i.private, "--kubeconfig",
			apitest.Serve(t).Kubeconfig(t)},
		"--yes-context is for a cluster named": {"certify", "run", "--key", i.private, "--to", "v1.37",
			"--yes-context", "prod"},
		"--key is missing: give the file with the public key": {"verify", i.file, i.runs},
		"RUNS is missing":                         {"verify", i.file},
		"read the public key":                     {"verify", i.file, i.runs, "--key", i.private},
		"is not the directory of the runs":        {"verify", i.file, i.file, "--key", i.public},
		"open /no/such/certificate: no such file": {"verify", "/no/such/certificate", i.runs, "--key", i.public},
	} {
		got := ask(t, args...)
		if got.code != exitArguments || !strings.Contains(got.stderr, want) {
			t.Errorf("%v: %+v, want %q", args, got, want)
		}
	}
}
