package trial

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/seatrial/seatrial/chaos/plan"
)

// maxManifests bounds the manifests of a workload in bytes: a plan holds them.
const maxManifests = 1 << 20

// PutWorkload puts the workload of a file, and the manifests that it names, into a plan, and validates it. Data is the
// content of the file, and dir its directory. The error is plan.FieldErrors if fields are wrong.
func PutWorkload(parts Parts, p plan.Plan, data []byte, dir string) (plan.Plan, error) {
	f, err := plan.DecodeWorkload(data)
	if err != nil {
		return p, err
	}
	text, err := readManifests(dir, f.Manifests)
	if err != nil {
		return p, fmt.Errorf("manifests: %w", err)
	}
	if p, err = f.Put(p, text); err != nil {
		return p, err
	}
	return p, Validate(parts, p)
}

// readManifests reads a file, or every file of a folder that ends in .yaml, .yml or .json, in the order of their names.
func readManifests(dir, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	files := []string{name}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		entries, err := os.ReadDir(name)
		if err != nil {
			return "", err
		}
		files = nil
		for _, e := range entries {
			if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
				files = append(files, filepath.Join(name, e.Name()))
			}
		}
	}
	var all bytes.Buffer
	for _, file := range files {
		if err := appendFile(&all, file); err != nil {
			return "", err
		}
		all.WriteString("\n---\n")
	}
	if len(files) == 0 || all.Len() > maxManifests {
		return "", fmt.Errorf("%q: %d files, %d bytes; give at least one, and at most %d bytes", name, len(files),
			all.Len(), maxManifests)
	}
	return all.String(), nil
}

// appendFile reads at most a byte too many: the file may be an endless device.
func appendFile(all *bytes.Buffer, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(all, io.LimitReader(file, maxManifests+1))
	return errors.Join(err, file.Close())
}
