// Package store keeps the results of long work on disk, each under the digest of what it was made from. Its promise: a
// result that is there is whole, and the same inputs are never worked on twice.
package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters/durable"
	"golang.org/x/sys/unix"
)

// shortSum is how many hexadecimal digits of an address name a directory: 80 bits, enough for a cache.
const shortSum = 20

// lockPoll is how often a held lock is tried again, lockBound for how long: longer than any work takes.
const (
	lockPoll  = 200 * time.Millisecond
	lockBound = 6 * time.Hour
)

// Store is a directory of results.
type Store struct {
	// Dir is the directory; it is made when it is missing.
	Dir string
}

// Default is the store of this user: below SEATRIAL_CACHE when that is set, and otherwise below the user's cache
// directory.
func Default() (Store, error) {
	if dir := os.Getenv("SEATRIAL_CACHE"); dir != "" {
		return Store{Dir: filepath.Join(dir, "nodeimage")}, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return Store{}, fmt.Errorf("find cache directory: %w: set SEATRIAL_CACHE", err)
	}
	return Store{Dir: filepath.Join(dir, "seatrial", "nodeimage")}, nil
}

// Path is where the result of that kind with that address is, or would be.
func (s Store) Path(kind, sum string) string {
	if len(sum) > shortSum {
		sum = sum[:shortSum]
	}
	return filepath.Join(s.Dir, "results", kind+"-"+sum)
}

// Has tells whether a whole result is there.
func (s Store) Has(kind, sum string) bool {
	info, err := os.Stat(s.Path(kind, sum))
	return err == nil && info.IsDir()
}

// LogPath is where the log of work on that kind goes; its directory exists afterwards.
func (s Store) LogPath(kind string) (string, error) {
	dir := filepath.Join(s.Dir, "logs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make log directory: %w", err)
	}
	return filepath.Join(dir, kind+".log"), nil
}

// Produce returns the directory of the result, working on it only when it is not there. The work function gets
// an empty directory; it becomes the result, in one rename, when work returns nil, and is removed otherwise.
// Other processes that want the same result wait for the one that works on it. The bool tells whether the
// result was there already.
func (s Store) Produce(
	ctx context.Context, kind, sum string, work func(ctx context.Context, dir string) error,
) (string, bool, error) {
	path := s.Path(kind, sum)
	if s.Has(kind, sum) {
		return path, true, nil
	}
	unlock, err := s.lock(ctx, filepath.Base(path))
	if err != nil {
		return "", false, err
	}
	defer unlock()
	if s.Has(kind, sum) {
		return path, true, nil
	}
	if err := s.work(ctx, path, work); err != nil {
		return "", false, err
	}
	return path, false, nil
}

func (s Store) work(ctx context.Context, path string, work func(context.Context, string) error) error {
	for _, dir := range []string{filepath.Dir(path), filepath.Join(s.Dir, "unfinished")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make cache directory: %w", err)
		}
	}
	// The lock is ours, so whatever an interrupted run left under this name is nobody's.
	tmp := filepath.Join(s.Dir, "unfinished", filepath.Base(path))
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("remove unfinished result: %w", err)
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return fmt.Errorf("make unfinished result: %w", err)
	}
	err := work(ctx, tmp)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = syncFiles(tmp)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return nil
}

// syncFiles writes the files of a result to the disk before the rename that calls them whole.
func syncFiles(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("sync result: %w", err)
		}
		defer func() { _ = f.Close() }() // Nothing was written to it.
		if err := f.Sync(); err != nil {
			return fmt.Errorf("sync result: %w", err)
		}
		return nil
	})
}

// lock takes the lock of that name, waiting until ctx ends.
func (s Store) lock(ctx context.Context, name string) (func(), error) {
	dir := filepath.Join(s.Dir, "locks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make lock directory: %w", err)
	}
	var unlock func()
	what := "another process to finish " + name
	err := await.Until(ctx, what, lockPoll, lockBound, func(context.Context) (_ bool, _ string, err error) {
		if unlock, err = tryLock(filepath.Join(dir, name)); err != nil {
			err = await.Stop(err)
		}
		return unlock != nil, "lock held", err
	})
	return unlock, err
}

// tryLock takes the lock when nobody has it, and returns neither a function nor an error when somebody has.
func tryLock(path string) (func(), error) {
	unlock, err := durable.Lock(path, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return unlock, err
}

// Sweep removes what killed processes had begun and nobody works on.
func (s Store) Sweep() error {
	found, err := filepath.Glob(filepath.Join(s.Dir, "unfinished", "*"))
	if err != nil {
		return fmt.Errorf("list unfinished results: %w", err)
	}
	var errs []error
	for _, path := range found {
		unlock, err := tryLock(filepath.Join(s.Dir, "locks", filepath.Base(path)))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if unlock != nil {
			errs = append(errs, os.RemoveAll(path))
			unlock()
		}
	}
	return errors.Join(errs...)
}

// KeepOnly removes all results of a kind but one: results that are only of use while they are new.
func (s Store) KeepOnly(kind, sum string) error {
	keep := s.Path(kind, sum)
	found, err := filepath.Glob(filepath.Join(s.Dir, "results", kind+"-*"))
	if err != nil {
		return fmt.Errorf("list results: %w", err)
	}
	var errs []error
	for _, path := range found {
		if path != keep {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	return errors.Join(errs...)
}
