// Package framework_test is an example of a suite of sigs.k8s.io/e2e-framework that runs trials beside other features.
//
//	go test ./examples/e2e-framework                  # judges a saved run, needs no cluster
//	SEATRIAL_LONG=1 go test -timeout 1h ./examples/e2e-framework
package framework_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/e2e-framework/pkg/env"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/seatrial/seatrial/e2e/trialtest"
)

// suite is the environment that all tests of the package share.
var suite = env.NewWithConfig(envconf.New())

// options run a trial on a kind cluster. Name a cluster of yours with Kubeconfig, Context and YesContext, and a
// StatefulSet of yours with Workload.
func options() trialtest.Options {
	return trialtest.Options{
		Scenarios: []string{"smoke"}, Cluster: os.Getenv("SEATRIAL_CLUSTER"), Runs: "../../runs", Progress: os.Stderr,
	}
}

func TestMain(m *testing.M) {
	if os.Getenv("SEATRIAL_LONG") != "" {
		suite.Setup(trialtest.Setup(options())).Finish(trialtest.Finish())
	}
	os.Exit(suite.Run(m))
}

// TestDataSurvives passes if every promise held while kubelets were killed, nodes cut off and rebooted.
func TestDataSurvives(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") == "" {
		t.Skip("NOT RUN: needs a cluster: make long")
	}
	nodes := features.New("a feature of yours, on the same cluster").Assess("nodes can be listed",
		func(ctx context.Context, t *testing.T, cfg *envconf.Config) context.Context {
			var list corev1.NodeList
			if err := cfg.Client().Resources().List(ctx, &list); err != nil || len(list.Items) < 2 {
				t.Errorf("%d nodes: %v", len(list.Items), err)
			}
			return ctx
		}).Feature()
	suite.Test(t, trialtest.Passes("smoke"), nodes)
}

// TestSavedRun judges a saved run again.
func TestSavedRun(t *testing.T) {
	suite.Test(t, trialtest.Judged("../../fixtures/recorded/smoke-861908-pass"))
}

// ExampleOptions_Plans shows what a trial would do; nothing is touched.
func ExampleOptions_Plans() {
	plans, err := trialtest.Options{Scenarios: []string{"smoke"}, Seed: 42}.Plans()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plans[0].Scenario, plans[0].Seed)
	// Output: smoke 42
}
