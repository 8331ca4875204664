// Command release completes a folder of built programs: an archive, a bill of materials and a krew manifest for them,
// and checksums, signed if a key is given. The same programs give the same bytes.
//
//	release -version v1.2.3 [-key FILE] DIR     complete DIR, which holds seatrial-OS-ARCH
//	release -verify FILE DIR                    check DIR with the signer's public key
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/e2e/certify/seal"
	"github.com/seatrial/seatrial/tools/offline/store"
)

const (
	sumsFile   = "SHA256SUMS"
	signedFile = "SHA256SUMS.dsse.json"
	krewFile   = "seatrial.yaml"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	version := flags.String("version", "", "version of the release, for example v1.2.3")
	key := flags.String("key", "", "file with the private key that signs the checksums: PEM, or of OpenSSH")
	public := flags.String("verify", "", "check the release with the public key in this file")
	licence := flags.String("license", "LICENSE", "file with the licence, for the archives")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("give the folder of the release")
	}
	dir := flags.Arg(0)
	if *public != "" {
		return verify(dir, *public, stdout)
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+`).MatchString(*version) {
		return fmt.Errorf("-version is %q; give a version such as v1.2.3", *version)
	}
	return complete(dir, *version, *key, *licence, stdout)
}

// target is a program of the release.
type target struct{ file, os, arch string }

func targets(dir string) ([]target, error) {
	files, err := filepath.Glob(filepath.Join(dir, "seatrial-*-*"))
	var out []target
	for _, f := range files {
		part := strings.Split(filepath.Base(f), "-")
		if len(part) == 3 && !strings.Contains(part[2], ".") {
			out = append(out, target{f, part[1], part[2]})
		}
	}
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("%q holds no file seatrial-OS-ARCH", dir)
	}
	return out, err
}

func complete(dir, version, keyFile, licence string, stdout io.Writer) error {
	found, err := targets(dir)
	if err != nil {
		return err
	}
	var platforms []any // Archives in the manifest of krew.
	for _, t := range found {
		if err := writeBill(t, version); err != nil {
			return fmt.Errorf("bill of materials of %s: %w", t.file, err)
		}
		archive := t.file + ".tar.gz"
		if err := writeArchive(archive, map[string]string{"seatrial": t.file, "LICENSE": licence}); err != nil {
			return fmt.Errorf("write %s: %w", archive, err)
		}
		sum, err := store.Digest(archive)
		if err != nil {
			return err
		}
		at := "https://github.com/seatrial/seatrial/releases/download/" + version + "/" + filepath.Base(archive)
		platforms = append(platforms, map[string]any{"uri": at, "sha256": sum, "bin": "seatrial",
			"selector": map[string]any{"matchLabels": map[string]any{"os": t.os, "arch": t.arch}}})
	}
	manifest, err := yaml.Marshal(krew(version, platforms))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, krewFile), manifest, 0o644); err != nil {
		return err
	}
	sums, err := sum(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, sumsFile), sums, 0o644); err != nil {
		return err
	}
	if _, err := stdout.Write(sums); err != nil {
		return err
	}
	return sign(dir, sums, keyFile)
}

// sign signs the checksums; without a key it removes an old signature.
func sign(dir string, sums []byte, keyFile string) error {
	name := filepath.Join(dir, signedFile)
	if keyFile == "" {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return fmt.Errorf("read the key: %w", err)
	}
	key, err := seal.ParsePrivateKey(text, []byte(os.Getenv("SEATRIAL_PASSWORD")))
	if err != nil {
		return fmt.Errorf("read the key %q: %w", keyFile, err)
	}
	signed, err := seal.SignSums(sums, key)
	if err != nil {
		return err
	}
	return os.WriteFile(name, signed, 0o644)
}

// verify checks the signature, and that the folder holds the signed files and no others.
func verify(dir, keyFile string, stdout io.Writer) error {
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return fmt.Errorf("read the key: %w", err)
	}
	key, err := seal.ParsePublicKey(text)
	if err != nil {
		return fmt.Errorf("read the key %q: %w", keyFile, err)
	}
	envelope, err := os.ReadFile(filepath.Join(dir, signedFile))
	if err != nil {
		return fmt.Errorf("the release is not signed: %w", err)
	}
	signed, err := seal.OpenSums(envelope, key)
	if err != nil {
		return err
	}
	now, err := sum(dir)
	if err != nil {
		return err
	}
	if !bytes.Equal(signed, now) {
		return fmt.Errorf("the files are not those that were signed; signed:\n%snow:\n%s", signed, now)
	}
	_, err = fmt.Fprintf(stdout, "%d files are as they were signed\n", bytes.Count(now, []byte("\n")))
	return err
}

// sum returns the checksums of all files but those of the checksums, in the order of their names.
func sum(dir string) ([]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, e := range entries {
		if e.IsDir() || slices.Contains([]string{sumsFile, signedFile}, e.Name()) {
			continue
		}
		sum, err := store.Digest(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, e.Name())
	}
	return out.Bytes(), nil
}

// writeArchive writes files, by their names in the archive, without owner and time.
func writeArchive(name string, files map[string]string) error {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for _, in := range slices.Sorted(maps.Keys(files)) {
		data, err := os.ReadFile(files[in])
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if in == "seatrial" {
			mode = 0o755
		}
		header := &tar.Header{Name: in, Mode: mode, Size: int64(len(data)), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(data); err != nil {
			return err
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		return err
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}

// bill is a CycloneDX 1.6 bill of materials (cyclonedx.org/docs/1.6/json). It has no serial number and no time, which
// would differ from build to build.
type bill struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type     string     `json:"type"`
	Ref      string     `json:"bom-ref"`
	Name     string     `json:"name"`
	Version  string     `json:"version"`
	PURL     string     `json:"purl,omitempty"`
	Hashes   []hash     `json:"hashes,omitempty"`
	Settings []property `json:"properties,omitempty"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn,omitempty"`
}

// writeBill writes what the Go toolchain linked into the program, by its own account (debug/buildinfo).
func writeBill(t target, version string) error {
	info, err := buildinfo.ReadFile(t.file)
	if err != nil {
		return err
	}
	sum, err := store.Digest(t.file)
	if err != nil {
		return err
	}
	main := module("application", info.Main.Path, version)
	main.Hashes = []hash{{"SHA-256", sum}}
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "vcs.") || slices.Contains([]string{"GOOS", "GOARCH", "CGO_ENABLED"}, s.Key) {
			main.Settings = append(main.Settings, property{"go:" + s.Key, s.Value})
		}
	}
	std := module("library", "std", strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go"))
	b := bill{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{main}, Components: []component{std}}
	all := dependency{Ref: main.Ref, On: []string{std.Ref}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := module("library", m.Path, m.Version)
		b.Components, all.On = append(b.Components, c), append(all.On, c.Ref)
	}
	b.Dependencies = []dependency{all}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(t.file+".cdx.json", append(text, '\n'), 0o644)
}

// module is a Go module, by its package URL (package-url/purl-spec).
func module(kind, path, version string) component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: kind, Ref: url, Name: path, Version: version, PURL: url}
}

// krew returns a manifest of krew (krew.sigs.k8s.io/docs/developer-guide/plugin-manifest).
func krew(version string, platforms []any) any {
	return map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin",
		"metadata": map[string]any{"name": "seatrial"},
		"spec": map[string]any{
			"version": version, "homepage": "https://github.com/seatrial/seatrial", "platforms": platforms,
			"shortDescription": "Test whether data survives on a cluster",
			"description": "Breaks nodes, networks and disks of a cluster while a database is writing, records what " +
				"happened, and judges the record. It touches an existing cluster only after --yes-context.",
		},
	}
}
