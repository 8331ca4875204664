package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/certify/audit"
)

// needChaosMesh is the need of faults that Chaos Mesh injects.
const needChaosMesh = "chaos-mesh"

// needs returns what the faults and upgrades of the plan need of the cluster, each once.
func needs(parts Parts, p plan.Plan) []string {
	var all []string
	for _, s := range p.AllSteps() {
		if s.Upgrade != nil {
			all = append(all, clusters.CanUpgrade)
		}
		if s.Fault != nil {
			def, _ := parts.fault(s.Fault.Name)
			all = append(all, def.Needs...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Validate checks a plan with the registered parts, for any cluster.
func Validate(parts Parts, p plan.Plan) error { return validate(caps(parts), p) }

// ValidateHere checks a plan also with what clusters on this machine can do, and, unless one is used again, with what a
// new one has. Nothing is touched; the kernel is asked for its features.
func ValidateHere(parts Parts, p plan.Plan, again bool) error {
	here := Provider()
	err := validateFor(here.Capabilities(), fmt.Sprintf("no %s cluster on this machine has it: ", here.Name), parts, p)
	if err != nil || again {
		return err
	}
	return validateNew(parts, p)
}

// ValidateExisting checks a plan also with what a cluster behind a kubeconfig can do, with a node hook or without.
// Nothing is touched.
func ValidateExisting(parts Parts, p plan.Plan, hooked bool) error {
	return validateFor(existingCan(hooked), "", parts, p)
}

func validateFor(can clusters.Capabilities, prefix string, parts Parts, p plan.Plan) error {
	c := caps(parts)
	c.Cannot = explained(can.Cannot, prefix)
	return validate(c, p)
}

func validate(c plan.Caps, p plan.Plan) error {
	if err := p.Validate(c); err != nil {
		return err
	}
	return manifests(p.Workload)
}

// explained puts a prefix before each reason why a need is not met.
func explained(cannot map[string]string, prefix string) map[string]string {
	for need, why := range cannot {
		cannot[need] = prefix + why
	}
	return cannot
}

// validateNew checks a plan for a cluster that the run makes, on which nothing is installed.
func validateNew(parts Parts, p plan.Plan) error {
	var errs plan.FieldErrors
	if x := p.Workload.External; x != nil && x.Namespace != "" {
		errs.Add("workload.external.namespace", "name its cluster by --kubeconfig, or by --cluster and --reuse",
			"a StatefulSet that is there is on no cluster that this run makes")
		return errs
	}
	if !slices.Contains(needs(parts, p), needChaosMesh) {
		return nil
	}
	errs.Add("steps", "keep a cluster with --keep, install Chaos Mesh on it, and use it with --cluster and --reuse",
		"an experiment is left to Chaos Mesh, which a cluster that this run makes does not have")
	return errs
}

// ValidateOn checks a plan with what the cluster can do and has installed. Nothing on it is touched.
func ValidateOn(ctx context.Context, parts Parts, p plan.Plan, cluster clusters.Cluster) error {
	c := caps(parts)
	all := needs(parts, p)
	c.Cannot = explained(cluster.Capabilities().Lacks(all), fmt.Sprintf("cluster %q: ", cluster.Name()))
	mesh := slices.Contains(all, needChaosMesh)
	delete(c.Cannot, needChaosMesh) // It is installed on a cluster: the API server is asked for it.
	nodes, err := cluster.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes of cluster %q: %w", cluster.Name(), err)
	}
	for _, n := range nodes {
		if n.Role() == clusters.RoleControlPlane {
			c.ControlPlanes++
		}
	}
	if err := p.Validate(c); err != nil {
		return err
	}
	var cannot plan.FieldErrors
	needWorkers(&cannot, p, len(nodes)-c.ControlPlanes, cluster.Name())
	lacks := cluster.Capabilities().Lacks([]string{clusters.CanSystemd, clusters.CanSharedDir})
	if why, ok := lacks[clusters.CanSystemd]; ok {
		cannot.Add("steps", "use a cluster whose nodes run systemd",
			"cluster %q: undo is armed by systemd on the nodes: %s", cluster.Name(), why)
	}
	if why, ok := lacks[clusters.CanSharedDir]; ok && p.Workload.StorageName() == plan.StorageSharedDisk {
		cannot.Add("workload.storage", fmt.Sprintf("use %q", plan.StorageLocal),
			"cluster %q: disks of storage %q are files that all nodes see: %s", cluster.Name(),
			plan.StorageSharedDisk, why)
	}
	if err := cannot.Err(); err != nil {
		return err
	}
	if !mesh && p.Workload.External == nil && p.Kubernetes == "" && len(p.FeatureGates) == 0 {
		return nil
	}
	kube, err := client(ctx, cluster)
	if err != nil {
		return fmt.Errorf("ask cluster %q what it is: %w", cluster.Name(), err)
	}
	if p.Kubernetes != "" {
		if err := steadyAt(ctx, kube, p.Kubernetes, cluster.Name()); err != nil {
			return err
		}
	}
	if err := gatesOn(ctx, kube, p.FeatureGates, cluster.Name()); err != nil {
		return err
	}
	if err := LookAt(ctx, kube, p); err != nil || !mesh {
		return err
	}
	return chaosMeshOn(ctx, kube, cluster.Name())
}

// steadyAt returns an error of fields when the API server or a kubelet has another version than the plan begins with,
// or a node is not Ready or cordoned, as after an upgrade that was broken off.
func steadyAt(ctx context.Context, kube kubernetes.Interface, want, cluster string) error {
	server, err := serverVersion(ctx, kube)
	if err != nil {
		return fmt.Errorf("cluster %q: %w", cluster, err)
	}
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("cluster %q: list nodes: %w", cluster, err)
	}
	var errs plan.FieldErrors
	another := func(what, is string) {
		if is != want {
			errs.Add("kubernetes", "use a cluster of that version, or leave --reuse out", "is %s, and %s of cluster "+
				"%q is %s", want, what, cluster, is)
		}
	}
	another("the API server", server.GitVersion)
	for _, n := range nodes.Items {
		another("the kubelet of node "+n.Name, n.Status.NodeInfo.KubeletVersion)
		if why := unsteady(n); why != "" {
			errs.Add("steps", "wait until it is steady, run seatrial heal, or leave --reuse out",
				"an upgrade begins on a steady cluster, and node %s of cluster %q %s", n.Name, cluster, why)
		}
	}
	return errs.Err()
}

// gated returns the components that the feature gates of a plan are of.
func gated() []string { return []string{"kube-apiserver", "kube-controller-manager"} }

// gatesOn returns an error of fields unless the flags of the control plane's pods have the feature gates on.
func gatesOn(ctx context.Context, kube kubernetes.Interface, gates []string, cluster string) error {
	if len(gates) == 0 {
		return nil
	}
	var errs plan.FieldErrors
	for _, component := range gated() {
		pods, err := kube.CoreV1().Pods(metav1.NamespaceSystem).List(ctx,
			metav1.ListOptions{LabelSelector: "component=" + component})
		if err != nil {
			return fmt.Errorf("cluster %q: list the pods of %s: %w", cluster, component, err)
		}
		for i, gate := range gates {
			off := slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
				return !slices.Contains(strings.Split(audit.Flags(&pod)[audit.GatesFlag], ","), gate+"=true")
			})
			if off || len(pods.Items) == 0 {
				errs.Add(fmt.Sprintf("featureGates[%d]", i), "use a cluster with it, or leave --reuse out",
					"%s of cluster %q has no flag that turns %s on", component, cluster, gate)
			}
		}
	}
	return errs.Err()
}

// chaosMeshOn returns an error of fields when the API server does not serve the kinds of Chaos Mesh, or when no
// controller of it is available.
func chaosMeshOn(ctx context.Context, kube kubernetes.Interface, cluster string) error {
	missing := func(what string) error {
		var errs plan.FieldErrors
		errs.Add("steps", "install Chaos Mesh on it, or leave the experiment out",
			"an experiment is left to Chaos Mesh, and cluster %q has %s", cluster, what)
		return errs
	}
	_, err := kube.Discovery().ServerResourcesForGroupVersion("chaos-mesh.org/v1alpha1")
	if apierrors.IsNotFound(err) {
		return missing("no CustomResourceDefinitions of it")
	}
	if err != nil {
		return fmt.Errorf("ask cluster %q for Chaos Mesh: %w", cluster, err)
	}
	list, err := kube.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/component=controller-manager,app.kubernetes.io/name=chaos-mesh",
	})
	if err != nil {
		return fmt.Errorf("ask cluster %q for Chaos Mesh: %w", cluster, err)
	}
	for _, d := range list.Items {
		if d.Status.AvailableReplicas > 0 {
			return nil
		}
	}
	return missing("no controller of it that is available")
}
