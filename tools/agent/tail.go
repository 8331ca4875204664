package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"
)

// runTail prints FILE from an offset to its end. With --follow it waits for the file and goes on with what is
// appended, until standard input ends: a container runtime that lost its client closes that and nothing else.
func runTail(ctx context.Context, std stdio, args []string) error {
	fs := flags()
	from := fs.Int64("from", 0, "offset of the first byte to print")
	follow := fs.Bool("follow", false, "go on with what is appended until standard input ends")
	operands, err := parse(fs, args, 1, exactly)
	if err != nil {
		return err
	}
	if *from < 0 {
		return badArguments("--from is %d, want 0 or more", *from)
	}
	if !*follow {
		file, err := os.Open(operands[0])
		if err != nil {
			return err
		}
		_, err = copyFrom(std.out, file, *from)
		return errors.Join(err, file.Close())
	}
	ctx, cancel := untilInputEnds(ctx, std)
	defer cancel()
	return followFile(ctx, std.out, operands[0], *from)
}

// untilInputEnds returns a context that ends with standard input.
func untilInputEnds(ctx context.Context, std stdio) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, std.in) // Its end is all that matters.
		cancel()
	}()
	return ctx, cancel
}

// copyFrom copies what file holds from offset on and returns the offset after it. A file shorter than offset is
// not the file that the offset was of.
func copyFrom(w io.Writer, file *os.File, offset int64) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return offset, err
	}
	if info.Size() < offset {
		return offset, fmt.Errorf("%q is %d bytes long, shorter than offset %d: it was replaced or cut",
			file.Name(), info.Size(), offset)
	}
	n, err := io.Copy(w, io.NewSectionReader(file, offset, info.Size()-offset))
	return offset + n, err
}

// recheck bounds the time until a change is seen that inotify did not tell, such as the file's creation.
const recheck = 500 * time.Millisecond

// followFile waits for a file and copies it from an offset on, with what is appended, until ctx ends.
func followFile(ctx context.Context, w io.Writer, path string, offset int64) error {
	changes, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("follow %q: %w", path, err)
	}
	defer func() { _ = changes.Close() }() // Nothing is written by it: nothing can be lost.
	again := time.NewTicker(recheck)
	defer again.Stop()
	var file *os.File
	for ctx.Err() == nil {
		if file == nil {
			file, err = os.Open(path)
			if err == nil {
				defer func() { _ = file.Close() }() // As above.
				err = changes.Add(path)
			}
		}
		if file != nil && err == nil {
			offset, err = copyFrom(w, file, offset)
		}
		if err != nil && (file != nil || !errors.Is(err, os.ErrNotExist)) {
			return fmt.Errorf("follow %q: %w", path, err)
		}
		select { // Any change counts, also one that was lost.
		case <-changes.Events:
		case <-changes.Errors: //nolint:errcheck // As it says above.
		case <-again.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// endOf returns the length of a file in bytes, 0 when it is not there.
func endOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find the end: %w", err)
	}
	return info.Size(), nil
}
