package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/kind/pkg/cluster"
	kindexec "sigs.k8s.io/kind/pkg/exec"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters"
)

const (
	// cleanupBound bounds the deletion of what a failed or interrupted Create made.
	cleanupBound = time.Minute
	// kindEndBound is how long kind may go on while its containers are removed. Its longest wait is 30 seconds, for a
	// container to start.
	kindEndBound = 90 * time.Second
)

// Create makes a cluster and returns when it is ready. A name that is taken is an error. After any other error the
// cluster is gone, or the error says that it is not.
//
// Kind's Create takes no context, so it runs in a goroutine. When ctx ends, Create removes its containers, so that
// kind's next step fails, waits at most kindEndBound for kind's end, and removes what kind made meanwhile.
func (p *Provider) Create(ctx context.Context, spec clusters.Spec) (clusters.Cluster, error) {
	fail := func(err error) (clusters.Cluster, error) {
		return nil, fmt.Errorf("create cluster %q: %w", spec.Name, err)
	}
	cfg, err := p.config(ctx, spec)
	if err != nil {
		return fail(err)
	}
	if found, ok, err := p.find(ctx, spec.Name); err != nil {
		return fail(err)
	} else if ok {
		return fail(taken(found))
	}
	if err := os.MkdirAll(filepath.Dir(p.kubeconfig), 0o700); err != nil {
		return fail(err)
	}
	// An interrupted deletion may have left something in the shared directory.
	if err := p.removeShared(ctx, spec.Name, []string{p.shared.dir(spec.Name)}); err != nil {
		return fail(err)
	}
	if err := p.shared.make(spec.Name); err != nil {
		return fail(err)
	}
	begun := time.Now()
	p.log.Info("making cluster", "name", spec.Name, "workers", spec.Workers, "image", spec.NodeImage)
	made := make(chan error, 1)
	go func() {
		made <- p.kind.Create(spec.Name, cluster.CreateWithV1Alpha4Config(cfg), cluster.CreateWithRetain(true),
			cluster.CreateWithKubeconfigPath(p.kubeconfig))
	}()
	select {
	case err = <-made:
		err = withOutput(err)
	case <-ctx.Done():
		return fail(errors.Join(ctx.Err(), p.abort(ctx, spec.Name, made)))
	}
	if err == nil {
		p.log.Info("cluster made, waiting until it is ready", "name", spec.Name, "took", time.Since(begun))
		var c *Cluster
		if c, err = p.open(ctx, spec.Name); err == nil {
			err = p.ready(ctx, c, spec.Workers+1)
		}
		if err == nil {
			p.log.Info("cluster ready", "name", spec.Name, "took", time.Since(begun))
			return c, nil
		}
	}
	return fail(errors.Join(err, p.discard(ctx, spec.Name)))
}

// abort removes what an interrupted kind makes until kind has ended, and then once more.
func (p *Provider) abort(ctx context.Context, name string, made <-chan error) error {
	look := func(ctx context.Context) (bool, string, error) {
		select {
		case outcome := <-made:
			return true, fmt.Sprintf("kind ended: %v", outcome), nil
		default:
		}
		found, there, err := p.find(ctx, name)
		if err == nil && there {
			err = p.remove(ctx, name)
		}
		return false, fmt.Sprintf("it goes on; removed nodes %v", found.Nodes), err
	}
	err := await.Until(context.WithoutCancel(ctx), "kind to end", askEvery, kindEndBound, look)
	if err != nil {
		err = fmt.Errorf("%w; it may make more nodes yet, to be removed with: seatrial clean", err)
	}
	return errors.Join(err, p.discard(ctx, name))
}

// discard deletes an unfinished cluster, with a bound of its own since the caller's context may have ended.
func (p *Provider) discard(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupBound)
	defer cancel()
	return p.remove(ctx, name)
}

// withOutput adds the last output of the failed command to an error of kind.
func withOutput(err error) error {
	const lines = 15
	run := kindexec.RunErrorForError(err)
	if run == nil {
		return err
	}
	said := strings.Split(strings.TrimSpace(string(run.Output)), "\n")
	if len(said) > lines {
		said = said[len(said)-lines:]
	}
	return fmt.Errorf("%w; it said last:\n%s", err, strings.Join(said, "\n"))
}
