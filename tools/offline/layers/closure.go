package layers

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// maxLinks is how many symbolic links in a row are followed.
const maxLinks = 20

// Root is a root file system in a tar file, to take files from.
type Root struct {
	file    *os.File
	entries map[string]entry
}

type entry struct {
	header *tar.Header
	offset int64
}

// OpenRoot reads the list of what is in a root file system's tar file. The caller closes it.
func OpenRoot(tarPath string) (*Root, error) {
	f, err := os.Open(tarPath)
	if err != nil {
		return nil, fmt.Errorf("open root file system: %w", err)
	}
	r := &Root{file: f, entries: make(map[string]entry)}
	tr := tar.NewReader(f)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read root file system: %w", err), f.Close())
		}
		offset, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read root file system: %w", err), f.Close())
		}
		r.entries[clean(h.Name)] = entry{h, offset}
	}
}

// Close closes the tar file.
func (r *Root) Close() error { return r.file.Close() }

// Closure returns the files that the programs need to run: themselves, the symbolic links on the way to them, the
// dynamic loader, and the libraries that they and their libraries name. A path that ends in "/*" means all files below
// that directory, with what those need, for plugins and data that no program names.
func (r *Root) Closure(paths ...string) ([]File, error) {
	c := &closure{root: r, files: make(map[string]File), done: make(map[string]bool)}
	for _, p := range paths {
		dir, all := strings.CutSuffix(p, "/*")
		if !all {
			if err := c.add(p); err != nil {
				return nil, err
			}
			continue
		}
		if err := c.addDir(dir); err != nil {
			return nil, err
		}
	}
	files := make([]File, 0, len(c.files))
	for _, f := range c.files {
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

type closure struct {
	root  *Root
	files map[string]File
	done  map[string]bool
}

func (c *closure) addDir(dir string) error {
	real, err := c.resolve(dir)
	if err != nil {
		return err
	}
	found := false
	for name, e := range c.root.entries {
		if strings.HasPrefix(name, real+"/") && e.header.Typeflag != tar.TypeDir {
			found = true
			if err := c.add(name); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("take files from root file system: nothing in %q", dir)
	}
	return nil
}

// add takes one file, by any of its names, and what it needs.
func (c *closure) add(name string) error {
	real, err := c.resolve(name)
	if err != nil {
		return err
	}
	if c.done[real] {
		return nil
	}
	c.done[real] = true
	data, err := c.root.Read(real)
	if err != nil {
		return err
	}
	c.files[real] = File{Name: real, Mode: c.root.entries[real].header.Mode & 0o7777, Data: data}
	needs, err := needed(data)
	if err != nil {
		return fmt.Errorf("read %q: %w", real, err)
	}
	for _, need := range needs {
		if err := c.addNeeded(real, need); err != nil {
			return err
		}
	}
	return nil
}

// addNeeded takes a library, looked for beside what needs it and where Debian's loader looks for it.
func (c *closure) addNeeded(by, need string) error {
	if strings.HasPrefix(need, "/") {
		return c.add(need)
	}
	for _, dir := range append([]string{path.Dir(by)}, c.root.libraryDirs()...) {
		if _, ok := c.root.entries[path.Join(dir, need)]; ok {
			return c.add(path.Join(dir, need))
		}
	}
	return fmt.Errorf("take files from root file system: %q needs %s, which is nowhere", by, need)
}

// resolve adds and follows symbolic links, and returns the name of their target.
func (c *closure) resolve(name string) (string, error) {
	todo, at := strings.Split(clean(name), "/"), ""
	for links := 0; len(todo) > 0; {
		at, todo = path.Join(at, todo[0]), todo[1:]
		e, ok := c.root.entries[at]
		if !ok {
			return "", fmt.Errorf("take files from root file system: no %q on the way to %q", at, name)
		}
		if e.header.Typeflag != tar.TypeSymlink {
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("take files from root file system: too many links on the way to %q", name)
		}
		c.files[at] = File{Name: at, Link: e.header.Linkname}
		target := e.header.Linkname
		if !strings.HasPrefix(target, "/") {
			target = path.Join("/", path.Dir(at), target)
		}
		todo, at = append(strings.Split(clean(target), "/"), todo...), ""
	}
	return at, nil
}

// Read returns the content of a file. Its name must have no symbolic links.
func (r *Root) Read(name string) ([]byte, error) {
	e, ok := r.entries[name]
	if !ok {
		return nil, fmt.Errorf("take files from root file system: no %q", name)
	}
	if e.header.Typeflag == tar.TypeLink {
		return r.Read(clean(e.header.Linkname))
	}
	if e.header.Typeflag != tar.TypeReg {
		return nil, fmt.Errorf("take files from root file system: %q is no file", name)
	}
	data := make([]byte, e.header.Size)
	if _, err := r.file.ReadAt(data, e.offset); err != nil {
		return nil, fmt.Errorf("take %q from root file system: %w", name, err)
	}
	return data, nil
}

// libraryDirs are the directories of Debian's libraries, the architecture's own first.
func (r *Root) libraryDirs() []string {
	dirs := []string{"usr/lib64", "usr/lib", "usr/local/lib"}
	for _, triplet := range []string{"x86_64-linux-gnu", "aarch64-linux-gnu"} {
		if _, ok := r.entries["usr/lib/"+triplet]; ok {
			return append([]string{"usr/lib/" + triplet}, dirs...)
		}
	}
	return dirs
}

// needed returns the loader and the libraries that a program or library names; other files name none.
func needed(data []byte) ([]string, error) {
	if !bytes.HasPrefix(data, []byte(elf.ELFMAG)) {
		return nil, nil
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	needs, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		loader, err := io.ReadAll(p.Open())
		if err != nil {
			return nil, err
		}
		if l := string(bytes.TrimRight(loader, "\x00")); l != "" {
			needs = append(needs, l)
		}
	}
	return needs, nil
}
