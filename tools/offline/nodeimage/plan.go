package nodeimage

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/steps"
)

// Work says what Ensure would do.
type Work struct {
	// Ref is the image that a build gives, or the published one when that is forced.
	Ref string
	// Present tells that an image is in the engine already and nothing is to do.
	Present bool
	// TriesPublished tells that the published image is asked for first.
	TriesPublished bool
	// Steps are those of a build, should it come to one; About is how long they take on two cores, at most, and is 0
	// when a build is not to be.
	Steps []WorkStep
	About time.Duration
}

// WorkStep is one step of a build.
type WorkStep struct {
	Name string
	// There tells that its result is in the cache.
	There bool
	About time.Duration
}

// String says in a sentence what would be done and how long it takes.
func (w Work) String() string {
	if w.Present {
		return "node image " + w.Ref + " is there"
	}
	var todo []string
	for _, s := range w.Steps {
		if !s.There {
			todo = append(todo, s.Name)
		}
	}
	build := fmt.Sprintf("build node image %s: about %s on two idle cores (%s)",
		w.Ref, steps.Brief(w.About.Round(time.Minute)), strings.Join(todo, ", "))
	switch {
	case w.TriesPublished && len(w.Steps) > 0:
		return "pull the published node image, or else " + build
	case w.TriesPublished:
		return "pull the published node image " + w.Ref
	}
	return build
}

// Plan says what Ensure would do with the same options, without doing it.
func Plan(ctx context.Context, o Options) (Work, error) {
	b, err := newBuilder(ctx, o, proc.Exec{})
	if err != nil {
		return Work{}, err
	}
	return b.plan(ctx)
}

func (b *builder) plan(ctx context.Context) (Work, error) {
	published := publishedImages()[b.rel.Kubernetes]
	if b.opts.Source != Build && published != "" && b.present(ctx, published) {
		return Work{Ref: published, Present: true}, nil
	}
	if b.opts.Source == Published {
		return Work{Ref: published, TriesPublished: true}, nil
	}
	img, err := b.target()
	if err != nil {
		return Work{}, err
	}
	w := Work{Ref: img.Ref, Present: b.present(ctx, img.Ref)}
	if w.Present {
		return w, nil
	}
	w.TriesPublished = b.opts.Source == Auto && published != ""
	all, err := b.steps(img)
	if err != nil {
		return Work{}, err
	}
	for _, s := range all {
		there := s.There()
		w.Steps = append(w.Steps, WorkStep{Name: s.Name, There: there, About: s.About})
		if !there {
			w.About += s.About
		}
	}
	return w, nil
}
