package layers

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// File is one entry of a layer.
type File struct {
	// Name is the path in the image, without a leading slash.
	Name string
	// Mode is the permissions; 0 means 0644, or 0755 for a directory.
	Mode int64
	// Data is the content, or Path is a file on this host that has it, or Link is where a symbolic link leads.
	Data []byte
	Path string
	Link string
	// Dir makes the entry a directory.
	Dir bool
}

// epoch is the time of every entry.
func epoch() time.Time { return time.Unix(0, 0).UTC() }

// Write writes a tar of the files, with the directories above them.
func Write(w io.Writer, files []File) error {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	tw := tar.NewWriter(w)
	made := make(map[string]bool)
	for _, f := range files {
		if f.Dir {
			made[f.Name] = true
		}
	}
	written := make(map[string]bool)
	for _, f := range files {
		for _, dir := range parents(f.Name) {
			if made[dir] {
				continue
			}
			made[dir] = true
			if err := writeEntry(tw, File{Name: dir, Dir: true}); err != nil {
				return err
			}
		}
		if written[f.Name] {
			return fmt.Errorf("write layer: %q is there twice", f.Name)
		}
		written[f.Name] = true
		if err := writeEntry(tw, f); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("write layer: %w", err)
	}
	return nil
}

func parents(name string) []string {
	var dirs []string
	for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}

func writeEntry(tw *tar.Writer, f File) error {
	h := &tar.Header{Name: f.Name, Mode: f.Mode, ModTime: epoch(), Format: tar.FormatPAX}
	if h.Mode == 0 {
		h.Mode = 0o644
	}
	var content io.Reader
	switch {
	case f.Dir:
		h.Typeflag, h.Name = tar.TypeDir, f.Name+"/"
		if f.Mode == 0 {
			h.Mode = 0o755
		}
	case f.Link != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.Link, 0o777
	case f.Path != "":
		src, err := os.Open(f.Path)
		if err != nil {
			return fmt.Errorf("write layer: %w", err)
		}
		defer func() { _ = src.Close() }() // Read only: nothing can be lost.
		info, err := src.Stat()
		if err != nil {
			return fmt.Errorf("write layer: %w", err)
		}
		h.Typeflag, h.Size, content = tar.TypeReg, info.Size(), src
	default:
		h.Typeflag, h.Size, content = tar.TypeReg, int64(len(f.Data)), strings.NewReader(string(f.Data))
	}
	if err := tw.WriteHeader(h); err != nil {
		return fmt.Errorf("write %q into layer: %w", f.Name, err)
	}
	if content == nil {
		return nil
	}
	if _, err := io.Copy(tw, content); err != nil {
		return fmt.Errorf("write %q into layer: %w", f.Name, err)
	}
	return nil
}

// WriteFile is Write to a new file at that path.
func WriteFile(dst string, files []File) error {
	return create(dst, func(w io.Writer) error { return Write(w, files) })
}

// Filter copies a tar file to dst without the entries that drop names. The names it sees have no leading "./" or "/"
// and no trailing "/".
func Filter(dst, src string, drop func(name string) bool) error {
	in, err := os.Open(src)
	if err != nil {
		return fmt.Errorf("filter layer: %w", err)
	}
	defer func() { _ = in.Close() }() // Read only: nothing can be lost.
	return create(dst, func(w io.Writer) error {
		tr, tw := tar.NewReader(bufio.NewReaderSize(in, 1<<20)), tar.NewWriter(w)
		for {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				return tw.Close()
			}
			if err != nil {
				return fmt.Errorf("read %s: %w", src, err)
			}
			if name := clean(h.Name); name == "" || drop(name) {
				continue
			}
			if err := tw.WriteHeader(h); err != nil {
				return fmt.Errorf("filter %q: %w", h.Name, err)
			}
			if _, err := io.Copy(tw, tr); err != nil {
				return fmt.Errorf("filter %q: %w", h.Name, err)
			}
		}
	})
}

// clean returns the name of a tar entry without leading "./" or "/" and without trailing "/"; the root is "".
func clean(name string) string {
	return strings.Trim(path.Clean("/"+name), "/")
}

func create(dst string, write func(io.Writer) error) error {
	f, err := os.Create(dst)
	if err != nil {
		return fmt.Errorf("create layer: %w", err)
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", dst, err)
	}
	return nil
}
