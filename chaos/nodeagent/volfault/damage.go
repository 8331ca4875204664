package volfault

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

	"github.com/seatrial/seatrial/clusters/linux"
)

// The size of an InnoDB page, and the bytes flipped in it: they belong to records in a page that is half full.
const (
	pageSize   = 16384
	flipOffset = pageSize / 4
	flipLength = 64
)

// openFile opens a file of a volume by its path in the pod's directory, which is "data" below the root of a local
// volume.
func openFile(root, file string, how int) (*os.File, error) {
	if !filepath.IsLocal(file) || strings.ContainsAny(file, "\x00\n") {
		return nil, fmt.Errorf("file %q: want a relative path without .. of a file of the volume", file)
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	f, err := r.OpenFile(file, how|unix.O_CLOEXEC, 0)
	if err != nil {
		f, err = r.OpenFile(filepath.Join("data", file), how|unix.O_CLOEXEC, 0)
	}
	return f, errors.Join(err, r.Close())
}

// ReadFile reads a file of a volume, and one page of it, from the victim's side.
func ReadFile(pv, file string, page int64) (seen FileView, err error) {
	v, err := Find(pv)
	if err != nil {
		return seen, err
	}
	from, err := viewOf(v)
	if err != nil {
		return seen, err
	}
	f, err := openFile(from.path, file, os.O_RDONLY)
	if err != nil {
		return seen, fmt.Errorf("open file %q of volume %q: %w", file, pv, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return seen, err
	}
	seen = FileView{By: from.by, Size: info.Size()}
	data := make([]byte, pageSize)
	switch n, err := f.ReadAt(data, page*pageSize); {
	case n == pageSize:
		seen.Page = digest(data)
	case err != nil && !errors.Is(err, io.EOF):
		return seen, fmt.Errorf("read page %d of file %q of volume %q: %w", page, file, pv, err)
	}
	return seen, nil
}

// damageFile has act damage a file, given its size.
func damageFile(root, file string, act func(f *os.File, size int64) (*Damage, error)) (d *Damage, err error) {
	f, err := openFile(root, file, os.O_RDWR|unix.O_SYNC)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if d, err = act(f, info.Size()); err != nil {
		return nil, fmt.Errorf("damage file %q: %w", file, err)
	}
	d.File = file
	return d, nil
}

// flip flips bytes of the page in the middle of a file and reads the page back from disk.
func flip(f *os.File, size int64) (*Damage, error) {
	number, page, err := middle(f, size/pageSize)
	if err != nil {
		return nil, fmt.Errorf("choose a page: %w", err)
	}
	d := &Damage{
		Page: number, Offset: number*pageSize + flipOffset, Length: flipLength, Before: digest(page),
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
	// The next read must come from the disk.
	if err := linux.Forget(int(f.Fd()), d.Offset-flipOffset, pageSize); err != nil {
		return nil, fmt.Errorf("drop page %d from the page cache: %w", number, err)
	}
	if _, err := f.ReadAt(page, number*pageSize); err != nil {
		return nil, err
	}
	d.After = digest(page)
	return d, nil
}

// middle returns the first page with content from the middle of a file on.
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
func truncate(f *os.File, size int64) (*Damage, error) {
	keep := size / pageSize / 2 * pageSize
	if keep == 0 {
		return nil, fmt.Errorf("it has %d bytes: use one of two pages at least", size)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, keep, size-keep)); err != nil {
		return nil, err
	}
	d := &Damage{Offset: keep, Length: size - keep, Before: hex.EncodeToString(h.Sum(nil))}
	if err := f.Truncate(keep); err != nil {
		return nil, err
	}
	return d, f.Sync()
}

func digest(page []byte) string {
	sum := sha256.Sum256(page)
	return hex.EncodeToString(sum[:])
}
