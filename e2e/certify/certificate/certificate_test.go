package certificate

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	svr "github.com/in-toto/attestation/go/predicates/svr/v01"
	intoto "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"golang.org/x/crypto/ssh"
	"google.golang.org/protobuf/encoding/protojson"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/world"
)

// recorded judges a recorded run.
func recorded(t testing.TB, name string) Judged {
	t.Helper()
	dir, err := rundir.Open(filepath.Join("../../../fixtures/recorded", name))
	if err != nil {
		t.Fatal(err)
	}
	h, err := dir.ReadHistory()
	if err != nil {
		t.Fatal(err)
	}
	var run struct {
		Scenario string
		Seed     uint64
	}
	if err := dir.ReadJSON(rundir.RunFile, &run); err != nil {
		t.Fatal(err)
	}
	w := world.New(h)
	return Judged{
		Run:    Run{Path: name, Scenario: run.Scenario, Seed: run.Seed, Files: map[string]string{"plan.json": "00"}},
		Report: check.Judge(w, check.All()), World: w,
	}
}

func head() Head {
	return Head{
		Issued: time.Date(2026, 11, 24, 5, 0, 0, 0, time.UTC), Commit: "0123abc", Profile: "quick",
		Cluster: []string{"API server v1.37.0", "node worker"},
		Audit: audit.Report{From: "v1.37.0", To: "v1.37", Verdict: check.Pass, Rules: []string{"two-attachments"},
			Findings: []audit.Finding{}, Unseen: []audit.Unseen{}},
	}
}

func TestMake(t *testing.T) {
	good, bad := recorded(t, "smoke-861908-pass"), recorded(t, "selftest-deleted-row-42-fail")
	unsure := recorded(t, "selftest-ipv6-open-42-unknown")
	for _, c := range []struct {
		name   string
		change func(*Head)
		runs   []Judged
		want   check.Verdict
		says   string // In the answer.
	}{
		{"pass", nil, []Judged{good}, check.Pass, "promises held in 1 trials"},
		{"fail", nil, []Judged{good, bad}, check.Fail, "no. Selftest-deleted-row, seed 42, is FAIL: "},
		{"unknown", nil, []Judged{good, unsure}, check.Unknown, "selftest-ipv6-open, seed 42, is UNKNOWN: "},
		{"fail over unknown", nil, []Judged{unsure, bad}, check.Fail, "is FAIL"},
		{"no run", nil, nil, check.Unknown, "No trial was carried out"},
		{"danger", func(h *Head) {
			h.Audit.Verdict = check.Fail
			h.Audit.Findings = []audit.Finding{{Rule: "budget-blocks", Severity: audit.Danger}}
		}, []Judged{good}, check.Fail, "no. Audit: "},
		{"not looked at", func(h *Head) {
			h.Audit.Verdict = check.Unknown
		}, []Judged{good}, check.Unknown, "not shown. Audit: "},
		{"changed", func(h *Head) {
			h.Changed = []string{"gone: PersistentVolume pv-1"}
		}, []Judged{good}, check.Unknown,
			"Objects came or went during the trials: gone: PersistentVolume pv-1"},
		{"another cluster", func(h *Head) { h.Drift = []string{"new: node x"} }, []Judged{good}, check.Unknown,
			"The cluster became another one during the trials: new: node x"},
	} {
		h := head()
		if c.change != nil {
			c.change(&h)
		}
		got := Make(h, c.runs, check.All())
		if got.Verdict != c.want || !strings.Contains(strings.ToLower(got.Answer()), strings.ToLower(c.says)) {
			t.Errorf("%s: %s, %q", c.name, got.Verdict, got.Answer())
		}
		if len(got.Checks()) < len(check.All()) {
			t.Errorf("%s: %d checks of %d are named", c.name, len(got.Checks()), len(check.All()))
		}
	}
}

// TestMakeCounts: evidence and faults are those of all runs, and what is in no run is named.
func TestMakeCounts(t *testing.T) {
	one := recorded(t, "smoke-861908-pass")
	h := head()
	h.Refused = []Refused{{Scenario: "power-loss", Seed: 7, Why: "no power"}}
	single, twice := Make(h, []Judged{one}, check.All()), Make(h, []Judged{one, one}, check.All())
	for i, p := range twice.Promises {
		if p.Evidence != 2*single.Promises[i].Evidence || p.Runs != 2 {
			t.Errorf("%+v, and of one run %+v", p, single.Promises[i])
		}
	}
	if len(single.Promises) != len(one.Report.Results) || len(single.Faults) != 3 {
		t.Errorf("%d promises of %d, %+v", len(single.Promises), len(one.Report.Results), single.Faults)
	}
	for i, f := range twice.Faults {
		if f.Planned != 2 || f.Shown != 2 || f.Seconds != 2*single.Faults[i].Seconds || f.Seconds < 1 {
			t.Errorf("%+v, and of one run %+v", f, single.Faults[i])
		}
	}
	for _, want := range []string{"power-loss, seed 7", "damage"} {
		if !slices.ContainsFunc(single.NotJudged, func(n NotJudged) bool { return n.What == want }) {
			t.Errorf("%q is not among what was not judged: %+v", want, single.NotJudged)
		}
	}
}

// TestDiffer: whatever the runs do not show is found.
func TestDiffer(t *testing.T) {
	run := recorded(t, "smoke-861908-pass")
	made := func() Certificate { return Make(head(), []Judged{run}, check.All()) }
	if differ := Differ(made(), made()); len(differ) > 0 {
		t.Errorf("equal ones differ: %v", differ)
	}
	for name, change := range map[string]func(*Certificate){
		"verdict":              func(c *Certificate) { c.Verdict = check.Fail },
		"a promise's":          func(c *Certificate) { c.Promises[0].Verdict = check.Unknown },
		"evidence":             func(c *Certificate) { c.Promises[1].Evidence++ },
		"a promise more":       func(c *Certificate) { c.Promises = append(c.Promises, Promise{Check: "peace"}) },
		"a promise less":       func(c *Certificate) { c.Promises = c.Promises[1:] },
		"a fault":              func(c *Certificate) { c.Faults[0].Shown++ },
		"the verdict of a run": func(c *Certificate) { c.Runs[0].Verdict = check.Fail },
		"a run less":           func(c *Certificate) { c.Runs = nil },
	} {
		c := made()
		change(&c)
		if len(Differ(c, made())) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}

// keys are a private key of each kind, as files are.
func keys(t *testing.T) map[string][]byte {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	must := func(der []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	block := func(b *pem.Block, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(b)
	}
	cosign := must(encrypted.Encrypt(must(x509.MarshalPKCS8PrivateKey(ec)), []byte("sesame")))
	return map[string][]byte{
		"OpenSSH":           block(ssh.MarshalPrivateKey(ed, "")),
		"OpenSSH encrypted": block(ssh.MarshalPrivateKeyWithPassphrase(ed, "", []byte("sesame"))),
		"PKCS #8 Ed25519":   block(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(ed))}, nil),
		"PKCS #8 ECDSA":     block(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(ec))}, nil),
		"SEC 1":             block(&pem.Block{Type: "EC PRIVATE KEY", Bytes: must(x509.MarshalECPrivateKey(ec))}, nil),
		"cosign":            block(&pem.Block{Type: "ENCRYPTED SIGSTORE PRIVATE KEY", Bytes: cosign}, nil),
	}
}

// publicFiles are the two forms of the public key.
func publicFiles(t *testing.T, k *Key) [][]byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	line, err := ssh.NewPublicKey(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return [][]byte{pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), ssh.MarshalAuthorizedKey(line)}
}

func signed(t *testing.T) (Certificate, *Key, []byte) {
	t.Helper()
	key, err := ParsePrivateKey(keys(t)["OpenSSH"], nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Make(head(), []Judged{recorded(t, "smoke-861908-pass")}, check.All())
	data, err := c.Sign(key)
	if err != nil {
		t.Fatal(err)
	}
	return c, key, data
}

// TestSignAndOpen with every kind of key, and with a key that did not sign.
func TestSignAndOpen(t *testing.T) {
	c, other, _ := signed(t)
	for name, file := range keys(t) {
		key, err := ParsePrivateKey(file, []byte("sesame"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		data, err := c.Sign(key)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, file := range publicFiles(t, key) {
			public, err := ParsePublicKey(file)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got, err := Open(data, public)
			if err != nil || len(Differ(c, got)) > 0 || got.Answer() != c.Answer() {
				t.Errorf("%s: %v, %v", name, err, Differ(c, got))
			}
			if _, err := c.Sign(public); err == nil {
				t.Errorf("%s: a public key signs", name)
			}
		}
		if _, err := Open(data, other); err == nil || !strings.Contains(err.Error(), "not signed by the key") {
			t.Errorf("%s: opened by another key: %v", name, err)
		}
	}
}

func TestBadKeys(t *testing.T) {
	all := keys(t)
	big, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8 := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	for name, c := range map[string]struct {
		file     []byte
		password string
		want     string
	}{
		"nothing":           {nil, "", "no key found"},
		"RSA":               {pkcs8(big), "", "neither an Ed25519 nor an ECDSA P-256 key"},
		"P-384":             {pkcs8(wide), "", "neither an Ed25519 nor an ECDSA P-256 key"},
		"no password":       {all["OpenSSH encrypted"], "", "passphrase protected"},
		"wrong password":    {all["OpenSSH encrypted"], "please", "password"},
		"cosign's password": {all["cosign"], "please", "decryption failed"},
	} {
		if _, err := ParsePrivateKey(c.file, []byte(c.password)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"", "ssh-rsa AAAA", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"} {
		if _, err := ParsePublicKey([]byte(bad)); err == nil {
			t.Errorf("%q is a public key", bad)
		}
	}
}

// TestEveryFlippedBitIsRejected, one in each byte of the file.
func TestEveryFlippedBitIsRejected(t *testing.T) {
	_, key, data := signed(t)
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 1 << (i % 8)
		if _, err := Open(bad, key); err == nil {
			t.Fatalf("bit %d of byte %d is flipped, and nobody sees it", i%8, i)
		}
	}
}

// TestChangedFilesAreRejected: bytes that are cut out, put in, doubled.
func TestChangedFilesAreRejected(t *testing.T) {
	_, key, data := signed(t)
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.IntRange(0, len(data)).Draw(t, "from")
		to := rapid.IntRange(from, len(data)).Draw(t, "to")
		put := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.SliceOf(rapid.SampledFrom([]byte(" \n\t\",:{}="))))
		bad := slices.Concat(data[:from], put.Draw(t, "put"), data[to:])
		if _, err := Open(bad, key); (err == nil) != slices.Equal(bad, data) {
			t.Fatalf("%d to %d replaced: %v", from, to, err)
		}
	})
}

// TestSignedButNotACertificate: what the key's owner signed can be something else.
func TestSignedButNotACertificate(t *testing.T) {
	c, key, _ := signed(t)
	summary, err := c.SignSummary(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(summary, key); err == nil || !strings.Contains(err.Error(), "its predicate is") {
		t.Errorf("a summary: %v", err)
	}
	later, err := c.sign(PredicateType, []byte(`{"later": true}`), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(later, key); err == nil || !strings.Contains(err.Error(), "a later version") {
		t.Errorf("a later version's: %v", err)
	}
	text, err := json.Marshal(Certificate{Head: Head{Cluster: []string{"another"}}})
	if err != nil {
		t.Fatal(err)
	}
	swapped, err := c.sign(PredicateType, text, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(swapped, key); err == nil || !strings.Contains(err.Error(), "its subject is not") {
		t.Errorf("about another cluster: %v", err)
	}
}

// TestSummary reads the summary as another program would: by the published types of in-toto.
func TestSummary(t *testing.T) {
	good, bad := recorded(t, "smoke-861908-pass"), recorded(t, "selftest-deleted-row-42-fail")
	c := Make(head(), []Judged{good, bad}, check.All())
	_, key, _ := signed(t)
	data, err := c.SignSummary(key)
	if err != nil {
		t.Fatal(err)
	}
	var e dsse.Envelope
	var s intoto.Statement
	var result svr.SimpleVerificationResult
	if err := json.Unmarshal(data, &e); err != nil {
		t.Fatal(err)
	}
	body, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(body, &s); err != nil {
		t.Fatal(err)
	}
	predicate, err := protojson.Marshal(s.GetPredicate())
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(predicate, &result); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil || result.GetVerifier().GetId() == "" || !result.GetTimeCreated().IsValid() {
		t.Errorf("%v, %v", err, &result)
	}
	if s.GetSubject()[0].GetDigest()["sha256"] != Subject(c.Cluster) {
		t.Errorf("subject %v", s.GetSubject())
	}
	var want []string
	for _, p := range c.Promises {
		if p.Verdict == check.Pass {
			want = append(want, "SEATRIAL_"+p.Check)
		}
	}
	if !slices.Equal(result.GetProperties(), want) || slices.Contains(want, "SEATRIAL_rows") || len(want) < 5 {
		t.Errorf("properties %v, want %v", result.GetProperties(), want)
	}
}
