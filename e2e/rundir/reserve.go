package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ReserveFile keeps room for the verdict and the reports: the disk may fill up while a trial runs, and then there must
// be a verdict all the same. It is removed when they are about to be written.
const ReserveFile = ".reserve"

// reserveSize is more than the verdict and the reports of the largest trial take; the page has 5 MiB at most.
const reserveSize = 6 << 20

// reserve takes the room. Only bytes that are written are there for sure.
func (d *Dir) reserve() error {
	f, err := os.OpenFile(d.File(ReserveFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep room in the run directory: %w", err)
	}
	_, err = f.Write(make([]byte, reserveSize))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("keep room in the run directory: %w", err), os.Remove(f.Name()))
	}
	return nil
}

// FreeReserve gives the room to those who write next. It may be called again.
func (d *Dir) FreeReserve() error {
	err := os.Remove(d.File(ReserveFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("free the room that was kept: %w", err)
	}
	return nil
}
