// Package apiwatch records every version of every API object that a trial is about.
//
// Its promise: from a resource's first on fact to its off fact, every change that the API server sent is one fact with
// its resourceVersion, in the order of the server; where changes may be missing, there is a gap on record. It uses
// plain list and watch, since an informer would merge changes. After a restart of the API server it lists the missed
// versions one by one, which etcd still has, so that an outage of the server is not a gap. It imports client-go, the
// boot clock and the facts.
package apiwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// Config says what to watch.
type Config struct {
	Client    dynamic.Interface
	Namespace string // Of the trial. Nodes, volumes, attachments and leases are watched in the whole cluster.
	// NodeSelector is a label query: other nodes are not of the trial. Empty is all nodes.
	NodeSelector string
	Recorder     history.Recorder
	Log          *slog.Logger
}

// Watcher watches the API server.
type Watcher struct {
	stop    context.CancelFunc
	streams []*stream
	wait    sync.WaitGroup
}

// anchorEvery is the interval of reading the newest resourceVersion. It bounds how far the spans of facts reach back.
const anchorEvery = time.Second

// Start begins to watch and returns at once; see Ready. Watching ends with Stop or ctx.
func Start(ctx context.Context, cfg Config) (*Watcher, error) {
	if cfg.Namespace == "" {
		return nil, errors.New("watch the API server: the trial's namespace is empty: name it")
	}
	known := &revisions{}
	anchors := map[*revisions]source{}
	var streams []*stream
	for _, r := range resources(cfg.Namespace) {
		var from source = cfg.Client.Resource(r.GroupVersionResource).Namespace(r.namespace)
		of, labels := known, ""
		switch r.Resource {
		case "pods":
			anchors[known] = from
		case "events", "leases": // They may be in an etcd of their own.
			of = &revisions{}
			anchors[of] = from
		case "nodes":
			labels = cfg.NodeSelector
		}
		streams = append(streams, newStream(r.Resource, from, labels, of, cfg.Recorder, cfg.Log))
	}
	return start(ctx, streams, anchors), nil
}

// start watches streams, and lists the sources of anchors for the revisions of each.
func start(ctx context.Context, streams []*stream, anchors map[*revisions]source) *Watcher {
	ctx, stop := context.WithCancel(ctx)
	w := &Watcher{stop: stop, streams: streams}
	for _, s := range streams {
		w.wait.Go(func() { s.run(ctx) })
	}
	for known, from := range anchors {
		w.wait.Go(func() { keepAnchors(ctx, from, known) })
	}
	return w
}

// keepAnchors reads the newest resourceVersion at intervals. It ignores errors; the watches record what is wrong with
// the server.
func keepAnchors(ctx context.Context, from source, known *revisions) {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		asked := bootclock.Now()
		ctx, cancel := context.WithTimeout(ctx, 10*anchorEvery)
		defer cancel()
		if list, err := from.List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			known.add(asked, bootclock.Now(), list.GetResourceVersion())
		}
	}, anchorEvery)
}

// Ready waits until every resource was listed once. The error names those that were not, with the last error of each.
func (w *Watcher) Ready(ctx context.Context) error {
	begin := time.Now()
	var errs []error
	for _, s := range w.streams {
		select {
		case <-s.ready:
		case <-ctx.Done():
		}
		select {
		case <-s.ready:
		default:
			last := errors.New("no answer yet")
			if failure := s.failure.Load(); failure != nil {
				last = *failure
			}
			errs = append(errs, fmt.Errorf("%s not listed, last state: %w", s.name, last))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("wait %v for the first lists: %w", time.Since(begin).Round(time.Millisecond), err)
	}
	return nil
}

// Stop ends the watches and records that each observer is off.
func (w *Watcher) Stop() {
	w.stop()
	w.wait.Wait()
}
