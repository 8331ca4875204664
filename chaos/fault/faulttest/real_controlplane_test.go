package faulttest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/kind/kindtest"
	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/e2e/observe/nodefacts"
)

// TestControlPlaneFaultsOnARealCluster runs all checks of the faults of the control plane's programs on a cluster of
// its own, and lets the timers on its nodes undo those that have one. SEATRIAL_FAULTS, when it is set, names the faults
// to run, by a comma between them.
func TestControlPlaneFaultsOnARealCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: faults of the control plane on a real kind cluster; needs an engine and an image: make long")
	}
	ctx := t.Context()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cluster, _ := kindtest.Cluster(t, log, "seatrial-dev-h-cp", 2)
	nodes, err := cluster.Nodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := program.Agent().Find(ctx, log)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if _, err := nodefacts.Install(ctx, n, agent); err != nil {
			t.Fatal(err)
		}
	}
	target := faulttest.Target{
		Cluster: cluster, Kube: realKube(t, cluster), RunID: "rcontrol", Clock: bootclock.Now, Log: log,
	}
	target.Before = func(ctx context.Context) error { return rested(ctx, target, nodes) }
	for _, kind := range []string{"kill", "freeze", "stop"} {
		for _, def := range faultsOf(kind) {
			if !wanted(def.Name) {
				continue
			}
			t.Run(def.Name, func(t *testing.T) {
				if err := faulttest.OnCluster(t.Context(), []fault.Definition{def}, target); err != nil {
					t.Error(err)
				}
				if kind == "kill" {
					return // The kubelet undoes it.
				}
				if err := rested(t.Context(), target, nodes); err != nil {
					t.Fatal(err)
				}
				if err := leftAlone(t, def, target, nodes); err != nil {
					t.Errorf("left alone: %v", err)
				}
			})
		}
	}
}

// wanted reports whether a fault is to be run.
func wanted(name string) bool {
	list := os.Getenv("SEATRIAL_FAULTS")
	return list == "" || strings.Contains(","+list+",", ","+name+",")
}

// rested starts the kubelets of the control plane again, so that none makes a program wait because it has ended several
// times in the checks before, and waits until they have their pods again, and the control plane's are Ready. A kubelet
// that does not know its pods yet would start none of them anew.
func rested(ctx context.Context, target faulttest.Target, nodes []clusters.Node) error {
	for _, n := range nodes {
		if n.Role() != clusters.RoleControlPlane {
			continue
		}
		if _, err := clusters.Run(ctx, n, "systemctl", "restart", "kubelet"); err != nil {
			return err
		}
		path := "/api/v1/nodes/" + n.Name() + "/proxy/pods"
		err := await.Until(ctx, "kubelet of "+n.Name()+" to have its pods", time.Second, time.Minute,
			func(ctx context.Context) (bool, string, error) {
				var pods corev1.PodList
				data, err := target.Kube.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
				if err == nil {
					err = json.Unmarshal(data, &pods)
				}
				return len(pods.Items) >= 4, fmt.Sprintf("%d pods", len(pods.Items)), err
			})
		if err != nil {
			return err
		}
	}
	tier := metav1.ListOptions{LabelSelector: "tier=control-plane"}
	return await.Until(ctx, "the control plane's pods to be Ready", time.Second, 3*time.Minute,
		func(ctx context.Context) (bool, string, error) {
			pods, err := target.Kube.CoreV1().Pods("kube-system").List(ctx, tier)
			if err != nil {
				return false, "", err
			}
			for _, p := range pods.Items {
				for _, c := range p.Status.Conditions {
					if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
						return false, p.Name + " is not", nil
					}
				}
			}
			return len(pods.Items) >= 4, fmt.Sprintf("%d pods", len(pods.Items)), nil
		})
}
