package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

// maxManifests bounds the manifests of a workload: a plan holds them.
const maxManifests = 1 << 20

// putWorkload puts the workload of a file, and the manifests that it names, into a plan; it touches nothing.
func putWorkload(p plan.Plan, name string) (plan.Plan, error) {
	const cannot = "the workload cannot be tried:"
	data, err := readFile(os.Stdin, name)
	if err != nil {
		return p, badArguments("--workload %w", err)
	}
	f, err := plan.DecodeWorkload(data)
	if err != nil {
		return p, badArguments("--workload %q: %w", name, illegal(cannot, err))
	}
	text, err := readManifests(filepath.Dir(name), f.Manifests)
	if err != nil {
		return p, badArguments("--workload %q: manifests: %w", name, err)
	}
	p, err = f.Put(p, text)
	if err == nil {
		err = trial.Validate(trial.AllParts(), p)
	}
	if err != nil {
		return p, badArguments("--workload %q: %w", name, illegal(cannot, err))
	}
	return p, nil
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
		files = nil
		entries, err := os.ReadDir(name)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			if isManifest(e) {
				files = append(files, filepath.Join(name, e.Name()))
			}
		}
	}
	var all bytes.Buffer
	for _, file := range files {
		data, err := readFile(strings.NewReader(""), file)
		if err != nil {
			return "", err
		}
		all.Write(data)
		all.WriteString("\n---\n")
	}
	if len(files) == 0 || all.Len() > maxManifests {
		return "", badArguments("%q: %d files, %d bytes; give at least one, and at most %d bytes", name, len(files),
			all.Len(), maxManifests)
	}
	return all.String(), nil
}

func isManifest(e fs.DirEntry) bool {
	switch filepath.Ext(e.Name()) {
	case ".yaml", ".yml", ".json":
		return !e.IsDir()
	}
	return false
}
