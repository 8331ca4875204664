package trialtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/e2e-framework/klient"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/features"
	"sigs.k8s.io/e2e-framework/pkg/types"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

// clusterKey finds the Cluster of Setup in a context.
type clusterKey struct{}

// Setup returns an env.Func for Environment.Setup: it opens the cluster and gives its client to the Config, so that
// other features of the suite use the same cluster. Without Cluster, Kubeconfig and Context it uses those of the
// Config, which the flags --kubeconfig and --context set; YesContext is needed all the same.
func Setup(o Options) types.EnvFunc {
	return func(ctx context.Context, cfg *envconf.Config) (context.Context, error) {
		if o.Cluster == "" && !o.existing() {
			o.Kubeconfig, o.Context = cfg.KubeconfigFile(), cfg.KubeContext()
		}
		c, err := Open(ctx, o)
		if err != nil {
			return ctx, err
		}
		config, err := c.ClientConfig(ctx)
		if err != nil {
			return ctx, errors.Join(err, c.Close(ctx))
		}
		client, err := klient.New(config)
		if err != nil {
			return ctx, errors.Join(fmt.Errorf("trialtest: make the client of the cluster: %w", err), c.Close(ctx))
		}
		cfg.WithClient(client)
		return context.WithValue(ctx, clusterKey{}, c), nil
	}
}

// Finish returns an env.Func for Environment.Finish: it closes the cluster that Setup opened. Environment.Run does not
// fail on an error of it; `seatrial clean` deletes a cluster that stays.
func Finish() types.EnvFunc {
	return func(ctx context.Context, _ *envconf.Config) (context.Context, error) {
		c, ok := ctx.Value(clusterKey{}).(*Cluster)
		if !ok {
			return ctx, nil
		}
		return ctx, c.Close(ctx)
	}
}

// Passes returns a feature that runs a scenario on the cluster of Setup and fails unless the verdict is PASS. Its
// labels are scenario, and fault for each fault of the plan: --labels fault=node-partition selects it. A scenario that
// is not known fails too.
func Passes(scenario string) types.Feature {
	f := features.New("trial "+scenario).WithLabel("scenario", scenario).WithLabel("type", "disruptive")
	if s, ok := trial.AllParts().Named(scenario); ok {
		for _, step := range plan.Make(s, 1).AllSteps() {
			if step.Fault != nil {
				f.WithLabel("fault", step.Fault.Name)
			}
		}
	}
	return f.Assess("the verdict is PASS",
		func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
			t.Helper()
			c, ok := ctx.Value(clusterKey{}).(*Cluster)
			if !ok {
				t.Fatalf("run %q: no cluster; give trialtest.Setup to Environment.Setup", scenario)
			}
			passes(t, func() (Result, error) { return c.Run(ctx, scenario) })
			return ctx
		}).Feature()
}

// Judged returns a feature that judges a saved run again, and fails unless the verdict is PASS. It needs no cluster.
func Judged(dir string) types.Feature {
	return features.New("saved run "+dir).WithLabel("type", "recorded").Assess("the verdict is PASS",
		func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
			t.Helper()
			passes(t, func() (Result, error) { return Judge(dir) })
			return ctx
		}).Feature()
}

func passes(t *testing.T, run func() (Result, error)) {
	t.Helper()
	r, err := run()
	if err == nil {
		t.Logf("run directory: %s", r.Dir)
		err = r.Err()
	}
	if err != nil {
		t.Error(err)
	}
}
