package injury

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The page of InnoDB, and what of it is flipped: bytes in its middle, which are of records in a page that is half full.
const (
	pageSize   = 16384
	flipOffset = pageSize / 4
	flipLength = 64
)

// ErrFile is wrapped by the error for a path that is not one of a file of the volume.
var ErrFile = errors.New("want a relative path without .. of a file of the volume")

// openFile opens a file of a volume; its path is relative to the directory that the pod is given, which is "data" below
// the root of a local volume.
func openFile(root, file string) (*os.File, error) {
	if !filepath.IsLocal(file) || strings.ContainsAny(file, "\x00\n") {
		return nil, fmt.Errorf("file %q: %w", file, ErrFile)
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	f, err := r.OpenFile(file, os.O_RDWR|unix.O_CLOEXEC|unix.O_SYNC, 0)
	if err != nil {
		f, err = r.OpenFile(filepath.Join("data", file), os.O_RDWR|unix.O_CLOEXEC|unix.O_SYNC, 0)
	}
	return f, errors.Join(err, r.Close())
}

// flip flips bytes of the page in the middle of a file, and reads it back from the disk.
func flip(root, file string) (_ *Damage, err error) {
	f, err := openFile(root, file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	number, page, err := middle(f, info.Size()/pageSize)
	if err != nil {
		return nil, fmt.Errorf("choose a page of %q: %w", file, err)
	}
	d := &Damage{
		File: file, Page: number, Offset: number*pageSize + flipOffset, Length: flipLength, Before: digest(page),
	}
	for i := range flipLength {
		page[flipOffset+i] ^= 0xff
	}
	if _, err := f.WriteAt(page[flipOffset:flipOffset+flipLength], d.Offset); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	// What is read next is from the disk, not from what was written a moment ago.
	if err := unix.Fadvise(int(f.Fd()), d.Offset-flipOffset, pageSize, unix.FADV_DONTNEED); err != nil {
		return nil, fmt.Errorf("drop page %d of %q from the page cache: %w", number, file, err)
	}
	if _, err := f.ReadAt(page, number*pageSize); err != nil {
		return nil, err
	}
	d.After = digest(page)
	return d, nil
}

// middle returns the page nearest to the middle of a file, from there on, that has anything in it.
func middle(f io.ReaderAt, pages int64) (int64, []byte, error) {
	page, empty := make([]byte, pageSize), make([]byte, pageSize)
	for i := range pages {
		number := (pages/2 + i) % pages
		if _, err := f.ReadAt(page, number*pageSize); err != nil {
			return 0, nil, err
		}
		part := page[flipOffset : flipOffset+flipLength]
		if number > 0 && !bytes.Equal(part, empty[:flipLength]) {
			return number, page, nil
		}
	}
	return 0, nil, fmt.Errorf("none of its %d pages has anything in it", pages)
}

// truncate cuts the second half of a file's pages off.
func truncate(root, file string) (_ *Damage, err error) {
	f, err := openFile(root, file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	keep := info.Size() / pageSize / 2 * pageSize
	if keep == 0 {
		return nil, fmt.Errorf("file %q has %d bytes: use one of two pages at least", file, info.Size())
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, keep, info.Size()-keep)); err != nil {
		return nil, err
	}
	d := &Damage{File: file, Offset: keep, Length: info.Size() - keep, Before: hex.EncodeToString(h.Sum(nil))}
	if err := f.Truncate(keep); err != nil {
		return nil, err
	}
	return d, f.Sync()
}

func digest(page []byte) string {
	sum := sha256.Sum256(page)
	return hex.EncodeToString(sum[:])
}
