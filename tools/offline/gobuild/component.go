package gobuild

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
)

// pinSuffix ends the name of every pinned file: a directory with a go.mod cannot be embedded.
const pinSuffix = ".txt"

// Component is a Go module at one version, and what is compiled from it.
type Component struct {
	// Module has no Files: Load reads them. Without Packages, only files of the Go module are used.
	Module
	// Path and Version name the Go module. They are empty for a component of our own sources only.
	Path, Version string
	// Pin is the pinned module that the component is compiled in; empty means its own.
	Pin string
	// Cold estimates how long compiling takes on two idle cores with empty caches.
	Cold time.Duration
}

// Title names the component for people.
func (c Component) Title() string { return strings.TrimSpace(c.Name + " " + c.Version) }

// PinName returns the directory, below that of all pins, of the pinned module that the component is compiled in.
func (c Component) PinName() string {
	if c.Pin != "" {
		return c.Pin
	}
	return c.Name + "-" + c.Version
}

// Load returns the module to compile: its go.mod and go.sum from the directory "pins" of pins, and the sources of our
// own packages ("./name") from own.
func (c Component) Load(pins, own fs.FS) (Module, error) {
	files := make(map[string][]byte)
	if err := addFiles(files, pins, path.Join("pins", c.PinName()), ""); err != nil {
		return Module{}, fmt.Errorf("read pins of component %s: %w", c.Name, err)
	}
	if err := c.addOwn(files, own); err != nil {
		return Module{}, err
	}
	c.Files = files
	return c.Module, nil
}

// addOwn adds the sources of the component's own packages.
func (c Component) addOwn(files map[string][]byte, own fs.FS) error {
	for _, pkg := range c.Packages {
		if dir, ok := strings.CutPrefix(pkg, "./"); ok {
			if err := addFiles(files, own, dir, dir); err != nil {
				return fmt.Errorf("read sources of component %s: %w", c.Name, err)
			}
		}
	}
	return nil
}

// addFiles adds the embedded files of a directory, under their real names below the directory as. Tests are left out.
func addFiles(files map[string][]byte, tree fs.FS, dir, as string) error {
	entries, err := fs.ReadDir(tree, dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		data, err := fs.ReadFile(tree, path.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		files[path.Join(as, strings.TrimSuffix(entry.Name(), pinSuffix))] = data
	}
	return nil
}
