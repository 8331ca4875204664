package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/database"
	"github.com/seatrial/seatrial/tools/offline/nodeimage"
	"github.com/seatrial/seatrial/tools/offline/sidecars"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// contentsFile is the first file in the archive that save writes; those of the results follow, in the order of
// contents.
const contentsFile = "seatrial.json"

// contents lists what a saved file holds.
type contents struct {
	Images  offline.Images `json:"images"`
	Results []result       `json:"results"`
}

// result is a directory of the store. Its name has the digest of what it was made from.
type result struct {
	Name  string `json:"name"`
	Files []file `json:"files"`
}

type file struct {
	Name   string      `json:"name"`
	Mode   fs.FileMode `json:"mode"`
	Bytes  int64       `json:"bytes"`
	SHA256 string      `json:"sha256"`
}

// results returns the directories in the store of all that this program makes: the database image, the sidecars, and
// the node image with that database image inside.
func (c command) results(ctx context.Context, db offline.Database) ([]string, error) {
	c.database = cmp.Or(db.Source, "build")
	image, err := database.Dir(ctx, c.databaseOptions())
	if err != nil {
		return nil, err
	}
	dirs, err := sidecars.Dirs(c.cache)
	if err != nil {
		return nil, err
	}
	db.Path = image // Only its digest goes into the name.
	node, err := nodeimage.Dir(c.nodeOptions(db))
	return slices.Concat([]string{image}, dirs, []string{node}), err
}

// save makes what a trial needs and writes it to a file.
func (c command) save(ctx context.Context) (offline.Answer, error) {
	answer, err := c.images(ctx)
	if err != nil {
		return offline.Answer{}, err
	}
	if answer.Images.Source != string(nodeimage.Build) {
		return offline.Answer{}, fmt.Errorf("save the images: the node image %s is a published one, which every host "+
			"pulls; give --node-image build to save one that is built", answer.Images.Node)
	}
	made, err := sidecars.Ensure(ctx, c.cache, c.progress)
	if err != nil {
		return offline.Answer{}, err
	}
	answer.Sidecars = &made
	if err := nodeimage.Keep(ctx, c.nodeOptions(answer.Images.Database)); err != nil {
		return offline.Answer{}, err
	}
	dirs, err := c.results(ctx, answer.Images.Database)
	if err != nil {
		return offline.Answer{}, err
	}
	fmt.Fprintf(c.progress, "write %s\n", c.file)
	if err := writeFile(ctx, c.file, *answer.Images, dirs); err != nil {
		return offline.Answer{}, fmt.Errorf("save the images: %w", err)
	}
	return answer, nil
}

// writeFile writes the directories into the file at path, which exists only when it is whole.
func writeFile(ctx context.Context, path string, images offline.Images, dirs []string) error {
	has := contents{Images: images}
	for _, dir := range dirs {
		r, err := describe(dir)
		if err != nil {
			return err
		}
		has.Results = append(has.Results, r)
	}
	text, err := json.MarshalIndent(has, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	out := tar.NewWriter(f)
	err = add(out, &tar.Header{Name: contentsFile, Mode: 0o644, Size: int64(len(text))}, bytes.NewReader(text))
	for i, r := range has.Results {
		for _, one := range r.Files {
			if err = errors.Join(err, ctx.Err()); err == nil {
				err = addFile(out, filepath.Join(dirs[i], one.Name), r.Name+"/"+one.Name, one)
			}
		}
	}
	if err = errors.Join(err, out.Close(), f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func describe(dir string) (result, error) {
	r := result{Name: filepath.Base(dir)}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return r, err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return r, err
		}
		sum, err := store.Digest(filepath.Join(dir, entry.Name()))
		if err != nil {
			return r, err
		}
		r.Files = append(r.Files, file{entry.Name(), info.Mode().Perm(), info.Size(), sum})
	}
	return r, nil
}

func addFile(out *tar.Writer, path, name string, of file) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = add(out, &tar.Header{Name: name, Mode: int64(of.Mode), Size: of.Bytes}, f)
	return errors.Join(err, f.Close())
}

func add(out *tar.Writer, header *tar.Header, from io.Reader) error {
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(out, from)
	return err
}

// check refuses a file that this program did not write, or that holds something else than it would make itself.
func (c command) check(ctx context.Context) error {
	return c.open(ctx, func(context.Context, contents, *tar.Reader) error { return nil })
}

// load puts the results in a file into the store and loads the node image into the engine.
func (c command) load(ctx context.Context) (offline.Answer, error) {
	err := c.open(ctx, func(ctx context.Context, has contents, in *tar.Reader) error {
		c.database = cmp.Or(has.Images.Database.Source, "build")
		return c.restoreAll(ctx, has, in)
	})
	if err != nil {
		return offline.Answer{}, err
	}
	c.source = string(nodeimage.Build)
	answer, err := c.images(ctx)
	if err != nil {
		return offline.Answer{}, err
	}
	made, err := sidecars.Ensure(ctx, c.cache, c.progress)
	answer.Sidecars = &made
	return answer, err
}

// open checks the file, and calls read with what it holds and a reader of its results.
func (c command) open(ctx context.Context, read func(context.Context, contents, *tar.Reader) error) error {
	f, err := os.Open(c.file)
	if err != nil {
		return &offline.BadFileError{Text: "load the images: " + err.Error()}
	}
	defer f.Close() //nolint:errcheck // It is only read.
	in := tar.NewReader(f)
	var has contents
	first, err := in.Next()
	if err == nil && first.Name != contentsFile {
		err = fmt.Errorf("it begins with %q", first.Name)
	}
	if err == nil {
		err = json.NewDecoder(io.LimitReader(in, 1<<20)).Decode(&has)
	}
	if err != nil {
		return c.bad("is not a file that `seatrial setup --save` has written: %v", err)
	}
	dirs, err := c.results(ctx, has.Images.Database)
	if err != nil {
		return err
	}
	for i, dir := range dirs {
		want := filepath.Base(dir)
		got := "nothing more"
		if i < len(has.Results) {
			got = has.Results[i].Name
		}
		if got != want {
			return c.bad("was saved by another seatrial, or for another architecture or Kubernetes version: it holds "+
				"%s with %s, and this call needs %s; save it anew, or give its --kubernetes-version",
				got, has.Images.KubernetesVersion, want)
		}
	}
	return read(ctx, has, in)
}

func (c command) bad(format string, args ...any) error {
	return &offline.BadFileError{Text: fmt.Sprintf("load the images: %q "+format, append([]any{c.file}, args...)...)}
}

// restoreAll puts the results into the store, except those that it has.
func (c command) restoreAll(ctx context.Context, has contents, in *tar.Reader) error {
	for _, r := range has.Results {
		at := strings.LastIndex(r.Name, "-") // Open has compared the name with one that this program makes.
		keep := store.Store{Dir: c.cache}
		_, reused, err := keep.Produce(ctx, r.Name[:at], r.Name[at+1:], func(ctx context.Context, dir string) error {
			for _, of := range r.Files {
				if err := errors.Join(ctx.Err(), c.extract(in, dir, r.Name, of)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if !reused {
			fmt.Fprintf(c.progress, "%s: loaded, its digests are right\n", r.Name)
			continue
		}
		fmt.Fprintf(c.progress, "%s: already there\n", r.Name)
		for range r.Files {
			if _, err := in.Next(); err != nil {
				return c.bad("is cut short: %v", err)
			}
		}
	}
	return nil
}

// extract writes the next file of the archive into dir. It refuses one that is not the file described.
func (c command) extract(in *tar.Reader, dir, name string, of file) error {
	header, err := in.Next()
	if err != nil {
		return c.bad("is cut short: %v", err)
	}
	if want := name + "/" + of.Name; header.Name != want || filepath.Base(of.Name) != of.Name {
		return c.bad("is damaged: it has %q where %q is to be", header.Name, want)
	}
	f, err := os.OpenFile(filepath.Join(dir, of.Name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, of.Mode.Perm())
	if err != nil {
		return err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, hash), io.LimitReader(in, of.Bytes))
	if closed := f.Close(); closed != nil {
		return closed
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return c.bad("is cut short: %v", err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); err != nil || got != of.SHA256 {
		return c.bad("is damaged: %s has the digest %s in place of %s (%v)", header.Name, got, of.SHA256, err)
	}
	return nil
}
