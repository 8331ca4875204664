package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/tools/offline/store"
)

// folder holds this test as the program of a release, and a pair of keys beside it.
func folder(t *testing.T) (dir, private, public string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	dir, private, public = filepath.Join(top, "release"), filepath.Join(top, "key"), filepath.Join(top, "key.pub")
	pub, priv, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	open, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		filepath.Join(dir, "seatrial-linux-amd64"): data,
		private: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		public:  pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}),
	} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, private, public
}

func release(dir, key string) error {
	return run([]string{"-version", "v1.2.3", "-key", key, "-license", "../../LICENSE", dir}, io.Discard)
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReleaseIsCompleteAndTheSameAgain(t *testing.T) {
	dir, private, public := folder(t)
	names := []string{"SHA256SUMS", "SHA256SUMS.dsse.json", "seatrial-linux-amd64.cdx.json",
		"seatrial-linux-amd64.tar.gz", "seatrial.yaml"}
	first := map[string][]byte{}
	for range 2 {
		if err := release(dir, private); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data := read(t, dir, name)
			if first[name] != nil && !bytes.Equal(first[name], data) {
				t.Errorf("%s differs", name)
			}
			first[name] = data
		}
	}
	if err := run([]string{"-verify", public, dir}, io.Discard); err != nil {
		t.Error(err)
	}

	var b bill
	if err := json.Unmarshal(first[names[2]], &b); err != nil {
		t.Fatal(err)
	}
	purls := map[string]bool{}
	for _, c := range b.Components {
		purls[strings.Split(c.PURL, "@")[0]] = c.Version != ""
	}
	if b.Format != "CycloneDX" || !purls["pkg:golang/sigs.k8s.io/yaml"] || !purls["pkg:golang/std"] ||
		len(b.Dependencies[0].On) != len(b.Components) {
		t.Errorf("bill of materials: %+v", b)
	}
	sum := strings.Fields(string(first["SHA256SUMS"]))[0]
	if b.Metadata.Component.Hashes[0].Content != sum {
		t.Errorf("the bill is of %v, and the program is %s", b.Metadata.Component.Hashes, sum)
	}
	archive, err := store.Digest(filepath.Join(dir, names[3]))
	if err != nil || !strings.Contains(string(first[names[4]]), archive) {
		t.Errorf("the krew manifest lacks the sum of the archive, %s (%v):\n%s", archive, err, first[names[4]])
	}

	zipped, err := gzip.NewReader(bytes.NewReader(first[names[3]]))
	if err != nil {
		t.Fatal(err)
	}
	inside := ""
	for files := tar.NewReader(zipped); ; {
		h, err := files.Next()
		if err != nil {
			break
		}
		inside += h.Name + " " + h.FileInfo().Mode().String() + ";"
	}
	if inside != "LICENSE -rw-r--r--;seatrial -rwxr-xr-x;" {
		t.Errorf("the archive holds %s", inside)
	}
}

func TestVerifyRefusesWhatWasChanged(t *testing.T) {
	dir, private, _ := folder(t)
	_, _, other := folder(t)
	if err := release(dir, private); err != nil {
		t.Fatal(err)
	}
	public := filepath.Join(filepath.Dir(dir), "key.pub")
	refused := func(key, want string) {
		t.Helper()
		if err := run([]string{"-verify", key, dir}, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	refused(other, "not signed by the key")
	sums := read(t, dir, sumsFile)
	extra := filepath.Join(dir, "seatrial-extra")
	if err := os.WriteFile(extra, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(public, "not those that were signed")
	if err := os.Remove(extra); err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(read(t, dir, signedFile), []byte(`"payload": "`), []byte(`"payload": "A`), 1)
	if err := os.WriteFile(filepath.Join(dir, signedFile), changed, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(public, "open the checksums")
	if err := release(dir, ""); err != nil { // Without a key.
		t.Fatal(err)
	}
	refused(public, "not signed")
	if !bytes.Equal(sums, read(t, dir, sumsFile)) {
		t.Error("the checksums differ without a key")
	}
}

func TestBadArguments(t *testing.T) {
	empty := t.TempDir()
	for _, args := range [][]string{{}, {"a", "b"}, {"-version", "1", empty}, {"-version", "v1.0.0", empty}} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
