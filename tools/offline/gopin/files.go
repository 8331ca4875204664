package gopin

import (
	"fmt"
	"io/fs"
	"strings"
)

// suffix is what every pinned file carries at its end: a directory with a go.mod cannot be embedded.
const suffix = ".txt"

// Files returns the files of the pinned module in that directory under their real names, go.mod and go.sum among them.
func Files(pins fs.FS, dir string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	err := fs.WalkDir(pins, dir, func(p string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(pins, p)
		if err != nil {
			return err
		}
		files[strings.TrimSuffix(strings.TrimPrefix(p, dir+"/"), suffix)] = data
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read pinned module %q: %w", dir, err)
	}
	return files, nil
}
