// Package store keeps results on disk, each under the digest of its inputs. Its promise: a result that exists is whole,
// and the same inputs are never processed twice.
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

// Path returns the directory of a result, whether or not it exists.
func (s Store) Path(kind, sum string) string {
	if len(sum) > shortSum {
		sum = sum[:shortSum]
	}
	return filepath.Join(s.Dir, "results", kind+"-"+sum)
}

// lockPath returns the lock file of a result or unfinished result.
func (s Store) lockPath(result string) string {
	return filepath.Join(s.Dir, "locks", filepath.Base(result))
}

// Has reports whether a result exists, and so is whole.
func (s Store) Has(kind, sum string) bool {
	info, err := os.Stat(s.Path(kind, sum))
	return err == nil && info.IsDir()
}

// Log returns a new log file, for people, of work on results of that kind.
func (s Store) Log(kind string) (*os.File, error) {
	dir := filepath.Join(s.Dir, "logs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make log directory: %w", err)
	}
	log, err := os.Create(filepath.Join(dir, kind+".log"))
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", kind, err)
	}
	return log, nil
}

// Produce returns the directory of a result, and calls work to make it if it does not exist. Work gets an empty
// directory, which becomes the result in one rename if work returns nil, and is removed otherwise. Other processes that
// want the same result wait meanwhile. The bool reports whether the result existed.
func (s Store) Produce(
	ctx context.Context, kind, sum string, work func(ctx context.Context, dir string) error,
) (string, bool, error) {
	path := s.Path(kind, sum)
	if s.Has(kind, sum) {
		return path, true, nil
	}
	unlock, err := Lock(ctx, s.lockPath(path), "another process to finish "+filepath.Base(path), lockBound)
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
	// This process has the lock, so what is left under this name is of an interrupted run.
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
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return fmt.Errorf("sync result: %w", err)
		}
		return nil
	})
}

// Lock takes the lock of a file, which it makes with its directory. It waits for another holder until ctx ends or the
// bound is over; the error then says that it waited for what. The lock ends with the process.
func Lock(ctx context.Context, path, what string, bound time.Duration) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make lock directory: %w", err)
	}
	err = await.Until(ctx, what, lockPoll, bound, func(context.Context) (_ bool, _ string, err error) {
		if unlock, err = tryLock(path); err != nil {
			err = await.Stop(err)
		}
		return unlock != nil, "lock held", err
	})
	return unlock, err
}

// tryLock returns neither a function nor an error if another process has the lock.
func tryLock(path string) (func(), error) {
	unlock, err := durable.Lock(path, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return unlock, err
}

// Sweep removes the unfinished results of killed processes.
func (s Store) Sweep() error {
	found, err := filepath.Glob(filepath.Join(s.Dir, "unfinished", "*"))
	if err != nil {
		return fmt.Errorf("list unfinished results: %w", err)
	}
	var errs []error
	for _, path := range found {
		unlock, err := tryLock(s.lockPath(path))
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

// KeepOnly removes all results of a kind but one.
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
