package seal

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

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/certify/certificate"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/world"
)

// made is a certificate of two promises that held and one that did not.
func made() certificate.Certificate {
	promise := func(name string, v check.Verdict) check.Result {
		return check.Result{Check: name, Verdict: v, Evidence: 7, Findings: []check.Finding{{Sentence: "It is gone."}}}
	}
	report := check.Report{Verdict: check.Fail, Results: []check.Result{
		promise("mounts", check.Pass), promise("rows", check.Fail), promise("settle", check.Pass),
	}}
	run := certificate.Run{Path: "smoke/1", Scenario: "smoke", Seed: 1 << 63,
		Files: map[string]string{"plan.json": "00"}}
	return certificate.Make(certificate.Head{
		Issued: time.Date(2026, 11, 24, 5, 0, 0, 0, time.UTC), Commit: "0123abc", Profile: "quick",
		Cluster: []string{"API server v1.37.0", "node worker"},
		Audit: audit.Report{From: "v1.37.0", To: "v1.37", Verdict: check.Pass, Rules: []string{"two-attachments"},
			Findings: []audit.Finding{}, Unseen: []audit.Unseen{}},
	}, []certificate.Judged{{Run: run, Report: report, World: world.New(history.History{})}}, check.All())
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

func signed(t *testing.T) (certificate.Certificate, *Key, []byte) {
	t.Helper()
	key, err := ParsePrivateKey(keys(t)["OpenSSH"], nil)
	if err != nil {
		t.Fatal(err)
	}
	c := made()
	data, err := Sign(c, key)
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
		data, err := Sign(c, key)
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
			if err != nil || len(certificate.Differ(c, got)) > 0 || got.Answer() != c.Answer() {
				t.Errorf("%s: %v, %v", name, err, certificate.Differ(c, got))
			}
			if _, err := Sign(c, public); err == nil {
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
	for name, private := range all {
		_, err := ParsePublicKey(private)
		if err == nil || !strings.Contains(err.Error(), "it is a private key; give the public one") {
			t.Errorf("%s: %v", name, err)
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
	summary, err := SignSummary(c, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(summary, key); err == nil || !strings.Contains(err.Error(), "its predicate is") {
		t.Errorf("a summary: %v", err)
	}
	later, err := sign(c, PredicateType, []byte(`{"later": true}`), key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(later, key); err == nil || !strings.Contains(err.Error(), "a later version") {
		t.Errorf("a later version's: %v", err)
	}
	text, err := json.Marshal(certificate.Certificate{Head: certificate.Head{Cluster: []string{"another"}}})
	if err != nil {
		t.Fatal(err)
	}
	swapped, err := sign(c, PredicateType, text, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(swapped, key); err == nil || !strings.Contains(err.Error(), "its subject is not") {
		t.Errorf("about another cluster: %v", err)
	}
}

// TestSummary reads the summary as another program would: by the published types of in-toto.
func TestSummary(t *testing.T) {
	c, key, _ := signed(t)
	s, result := summed(t, c, key)
	if err := s.Validate(); err != nil || result.GetVerifier().GetId() == "" || !result.GetTimeCreated().IsValid() {
		t.Errorf("%v, %v", err, result)
	}
	if s.GetSubject()[0].GetDigest()["sha256"] != certificate.Subject(c.Cluster) {
		t.Errorf("subject %v", s.GetSubject())
	}
	var want []string
	for _, p := range c.Promises {
		if p.Verdict == check.Pass {
			want = append(want, "SEATRIAL_"+p.Check)
		}
	}
	if !slices.Equal(result.GetProperties(), want) || slices.Contains(want, "SEATRIAL_rows") || len(want) != 2 {
		t.Errorf("properties %v, want %v", result.GetProperties(), want)
	}
}

// TestSummaryTellsTheVerdict: every promise can be PASS in a certificate that is not, as where the cluster changed.
func TestSummaryTellsTheVerdict(t *testing.T) {
	c, key, _ := signed(t)
	for _, v := range []check.Verdict{check.Pass, check.Unknown, check.Fail} {
		c.Verdict = v
		_, result := summed(t, c, key)
		if slices.Contains(result.GetProperties(), "SEATRIAL_certificate") != (v == check.Pass) {
			t.Errorf("%s: properties %v", v, result.GetProperties())
		}
	}
}

// summed signs a summary and reads it.
func summed(t *testing.T, c certificate.Certificate, key *Key) (*intoto.Statement, *svr.SimpleVerificationResult) {
	t.Helper()
	data, err := SignSummary(c, key)
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
	return &s, &result
}
