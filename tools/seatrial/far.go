package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"github.com/seatrial/seatrial/e2e/bucket"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// far is the bucket that a night stores its results in; nil without one.
type far struct{ *bucket.Bucket }

// openFar opens the bucket at a URL, if there is one. It is refused if it cannot be reached.
func openFar(ctx context.Context, url string) (*far, error) {
	if url == "" {
		return nil, nil //nolint:nilnil // No bucket is no error, and all of far takes it.
	}
	b, err := bucket.Open(ctx, url)
	if err != nil {
		return nil, badArguments("--store: %w", err)
	}
	return &far{b}, nil
}

// begin takes over the results that are stored, and stores the list.
func (f *far) begin(ctx context.Context, night rundir.Night) error {
	if f == nil {
		return nil
	}
	return errors.Join(f.Pull(ctx, night, time.Minute), f.put(ctx, night, rundir.ListFile))
}

// push stores what is not stored yet.
func (f *far) push(ctx context.Context, night rundir.Night, runs string, bound time.Duration) error {
	if f == nil {
		return nil
	}
	return f.Push(ctx, night, runs, bound)
}

// publish stores the pages and tables of the whole night.
func (f *far) publish(ctx context.Context, night rundir.Night) error {
	if f == nil {
		return nil
	}
	return f.put(ctx, night, rundir.IndexFile, rundir.NightFile, rundir.JUnitFile, rundir.PromFile, rundir.MarkdownFile)
}

func (f *far) put(ctx context.Context, night rundir.Night, names ...string) error {
	for _, name := range names {
		data, err := os.ReadFile(night.Path(name))
		if err != nil {
			return fmt.Errorf("store a file of the night: %w", err)
		}
		if err := f.Put(ctx, path.Join(rundir.NightDir, name), data, time.Minute); err != nil {
			return err
		}
	}
	return nil
}

// fetchNight makes of a bucket a directory for runs with the results, without the runs.
func fetchNight(ctx context.Context, url, root string) (*far, error) {
	f, err := openFar(ctx, url)
	if err != nil {
		return nil, err
	}
	night := rundir.OpenNight(root)
	data, err := f.Get(ctx, path.Join(rundir.NightDir, rundir.ListFile), time.Minute)
	if err != nil {
		return nil, badArguments("%w; give what --store of a night was", err)
	}
	var l nightly.List
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, fmt.Errorf("decode %s: %w", f.URL(rundir.ListFile), err)
	}
	unlock, err := night.Begin(l, "merge")
	if err != nil {
		return nil, err
	}
	defer unlock()
	return f, f.Pull(ctx, night, time.Minute)
}
