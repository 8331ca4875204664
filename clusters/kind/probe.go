package kind

import (
	"bytes"
	"context"
	_ "embed" // Probe.yaml.
	"errors"
	"fmt"
	"net"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters"
)

// The probe pods, one on each node, exist while Create waits for readiness. They run the cluster's DNS server, the one
// image on every node that answers on the network, configured to answer "OK" over HTTP.
const (
	probeName = "seatrial-probe"
	probePort = "18080"
	// probeMark is the environment variable by which a probe's process is found on its node.
	probeMark = "SEATRIAL_PROBE"
)

//go:embed probe.yaml
var probeYAML []byte

// probeObjects decodes the objects of the probes, which run the image.
func probeObjects(image string) (*corev1.ConfigMap, *appsv1.DaemonSet, error) {
	config, set := &corev1.ConfigMap{}, &appsv1.DaemonSet{}
	first, second, _ := bytes.Cut(probeYAML, []byte("---\n"))
	if err := errors.Join(yaml.UnmarshalStrict(first, config), yaml.UnmarshalStrict(second, set)); err != nil {
		return nil, nil, fmt.Errorf("decode the probe pods: %w", err)
	}
	set.Spec.Template.Spec.Containers[0].Image = image
	return config, set, nil
}

// makeProbes makes the DaemonSet unless it exists.
func (r readiness) makeProbes(ctx context.Context) (bool, string, error) {
	dns, err := r.kube.AppsV1().Deployments(systemNamespace).Get(ctx, dnsDeployment, metav1.GetOptions{})
	if err != nil {
		return false, "", err
	}
	if len(dns.Spec.Template.Spec.Containers) == 0 {
		return false, "the DNS deployment has no container", nil
	}
	config, set, err := probeObjects(dns.Spec.Template.Spec.Containers[0].Image)
	if err != nil {
		return false, "", await.Stop(err)
	}
	_, mapErr := r.kube.CoreV1().ConfigMaps(systemNamespace).Create(ctx, config, metav1.CreateOptions{})
	_, setErr := r.kube.AppsV1().DaemonSets(systemNamespace).Create(ctx, set, metav1.CreateOptions{})
	err = errorsBut(apierrors.IsAlreadyExists, mapErr, setErr)
	return err == nil, "", err
}

// errorsBut joins errors without those that do not count.
func errorsBut(harmless func(error) bool, errs ...error) error {
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return err == nil || harmless(err) })...)
}

// probePods returns the probe pods that run and have an address, and the state of the others.
func (r readiness) probePods(ctx context.Context) (running []corev1.Pod, state string, err error) {
	list, err := r.pods(ctx, "app="+probeName)
	if err != nil {
		return nil, "", err
	}
	var others []string
	for _, pod := range list.Items {
		if pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" {
			running = append(running, pod)
			continue
		}
		word := string(pod.Status.Phase)
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Waiting != nil {
				word += ", " + c.State.Waiting.Reason
			}
		}
		others = append(others, fmt.Sprintf("%s (%s)", pod.Spec.NodeName, word))
	}
	return running, fmt.Sprintf("%d of %d run, not yet on: %v", len(running), r.nodes, others), nil
}

// podsReachPods waits until the probe pod of a node gets answers from those of all other nodes.
func (r readiness) podsReachPods(ctx context.Context, n *node, probes []corev1.Pod) error {
	var pid string
	condition := fmt.Sprintf("the probe's process to be found on node %q", n.name)
	err := r.wait(ctx, condition, func(ctx context.Context) (bool, string, error) {
		pids, err := n.pidsWith(ctx, probeMark+"="+probeName)
		if len(pids) > 0 {
			pid = pids[0]
		}
		return len(pids) > 0, fmt.Sprintf("%d processes", len(pids)), err
	})
	if err != nil {
		return err
	}
	for _, pod := range probes {
		if pod.Spec.NodeName == n.name {
			continue
		}
		url := "http://" + net.JoinHostPort(pod.Status.PodIP, probePort) + "/health"
		condition := fmt.Sprintf("a pod on node %q to reach the one on node %q", n.name, pod.Spec.NodeName)
		err := r.wait(ctx, condition, func(ctx context.Context) (bool, string, error) {
			ctx, cancel := context.WithTimeout(ctx, tryBound)
			defer cancel()
			out, err := clusters.Run(ctx, n, "nsenter", "--net=/proc/"+pid+"/ns/net", "curl", "--silent",
				"--show-error", "--fail", "--noproxy", "*", "--max-time", "3", url)
			return out == "OK", fmt.Sprintf("it says %q", out), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeProbes deletes the probe pods and waits until they are gone.
func (r readiness) removeProbes(ctx context.Context) error {
	condition := "the probe pods to be gone"
	return r.wait(ctx, condition, func(ctx context.Context) (bool, string, error) {
		setErr := r.kube.AppsV1().DaemonSets(systemNamespace).Delete(ctx, probeName, metav1.DeleteOptions{})
		mapErr := r.kube.CoreV1().ConfigMaps(systemNamespace).Delete(ctx, probeName, metav1.DeleteOptions{})
		if err := errorsBut(apierrors.IsNotFound, setErr, mapErr); err != nil {
			return false, "", err
		}
		list, err := r.pods(ctx, "app="+probeName)
		if err != nil {
			return false, "", err
		}
		return len(list.Items) == 0, fmt.Sprintf("%d are left", len(list.Items)), nil
	})
}
