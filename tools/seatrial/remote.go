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

// remote is the bucket that a night stores its results in; nil without one.
type remote struct{ *bucket.Bucket }

// openRemote opens the bucket at a URL, if there is one. What cannot be reached is refused; argument says who named it.
func openRemote(ctx context.Context, argument, url string) (*remote, error) {
	if url == "" {
		return nil, nil //nolint:nilnil // No bucket is no error, and all of remote takes it.
	}
	b, err := bucket.Open(ctx, url)
	if err != nil {
		return nil, badArguments("%s: %w", argument, err)
	}
	return &remote{b}, nil
}

// begin takes over the results that are stored, and stores the list.
func (r *remote) begin(ctx context.Context, night rundir.Night) error {
	if r == nil {
		return nil
	}
	return errors.Join(r.Pull(ctx, night, time.Minute), r.put(ctx, night, rundir.ListFile))
}

// push stores what is not stored yet.
func (r *remote) push(ctx context.Context, night rundir.Night, runs string, bound time.Duration) error {
	if r == nil {
		return nil
	}
	return r.Push(ctx, night, runs, bound)
}

// publish stores the pages and tables of the whole night.
func (r *remote) publish(ctx context.Context, night rundir.Night) error {
	if r == nil {
		return nil
	}
	return r.put(ctx, night, rundir.IndexFile, rundir.NightFile, rundir.JUnitFile, rundir.PromFile, rundir.MarkdownFile)
}

func (r *remote) put(ctx context.Context, night rundir.Night, names ...string) error {
	for _, name := range names {
		data, err := os.ReadFile(night.Path(name))
		if err != nil {
			return fmt.Errorf("store a file of the night: %w", err)
		}
		if err := r.Put(ctx, path.Join(rundir.NightDir, name), data, time.Minute); err != nil {
			return err
		}
	}
	return nil
}

// fetchNight makes of a bucket a directory for runs with the results, without the runs.
func fetchNight(ctx context.Context, url, root string) (*remote, error) {
	f, err := openRemote(ctx, "merge", url)
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
