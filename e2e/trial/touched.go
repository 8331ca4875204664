package trial

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/lock"
	"github.com/seatrial/seatrial/e2e/world"
)

// Surroundings are what a cluster has that a plan could touch.
type Surroundings struct {
	Nodes []corev1.Node // The selected ones.
	Pods  []corev1.Pod  // Of all namespaces.
}

// ReadSurroundings lists nodes of a cluster, those that a label query selects, and all pods. It only reads.
func ReadSurroundings(ctx context.Context, kube kubernetes.Interface, selector string) (*Surroundings, error) {
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	pods, err := kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return &Surroundings{Nodes: nodes.Items, Pods: pods.Items}, nil
}

// WriteTouched writes which nodes and pods a plan touches, for how long, and how that is undone. Without surroundings
// it names what is known without a cluster.
func WriteTouched(w io.Writer, parts Parts, p plan.Plan, at *Surroundings) error {
	var b strings.Builder
	b.WriteString("  will be touched\n")
	tab := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(tab, "    step\tfault\tpod\tnode\theld\tat most\tundone by\n")
	hurt := 0
	for _, s := range p.AllSteps() {
		if s.Fault == nil {
			continue
		}
		hurt++
		pod := fmt.Sprintf("%s-%d", p.Workload.StatefulSet, s.Fault.Ordinal)
		def, _ := parts.fault(s.Fault.Name)
		fmt.Fprintf(tab, "    %d\t%s\t%s\t%s\t%s\t%s\t%s\n", s.N, s.Fault.Name, pod, at.nodeOf(p, pod), s.Fault.Hold,
			def.Life(*s.Fault), def.Healed)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	if hurt == 0 {
		b.WriteString("    no node: the plan has no fault\n")
	}
	if at != nil {
		at.write(&b, p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// nodeOf returns the node of a pod of the workload, if it is known.
func (s *Surroundings) nodeOf(p plan.Plan, pod string) string {
	if x := p.Workload.External; s != nil && x != nil && x.Namespace != "" {
		for _, one := range s.Pods {
			if one.Namespace == x.Namespace && one.Name == pod && one.Spec.NodeName != "" {
				return one.Spec.NodeName
			}
		}
	}
	return "its own"
}

// maxPodsShown bounds the pods that are named.
const maxPodsShown = 20

// write writes which nodes get an agent, and which pods run where a fault can strike.
func (s *Surroundings) write(b *strings.Builder, p plan.Plan) {
	var all []string
	victims := map[string]bool{} // Nodes that a fault can strike.
	for _, n := range s.Nodes {
		all = append(all, n.Name)
		if !world.IsControlPlane(n.Labels) {
			victims[n.Name] = true
		}
	}
	x := p.Workload.External
	if x != nil && x.Namespace != "" {
		clear(victims)
		for _, pod := range s.Pods {
			if pod.Namespace == x.Namespace && strings.HasPrefix(pod.Name, p.Workload.StatefulSet+"-") {
				victims[pod.Spec.NodeName] = true
			}
		}
	}
	var beside []string
	for _, pod := range s.Pods {
		if victims[pod.Spec.NodeName] {
			beside = append(beside, pod.Namespace+"/"+pod.Name)
		}
	}
	slices.Sort(beside)
	slices.Sort(all)
	fmt.Fprintf(b, "  nodes     %d get a privileged pod and a service, until the end: %s\n", len(all),
		strings.Join(all, ", "))
	fmt.Fprintf(b, "  pods      %d run now on the nodes that faults can strike: %s", len(beside),
		strings.Join(beside[:min(len(beside), maxPodsShown)], ", "))
	if len(beside) > maxPodsShown {
		fmt.Fprintf(b, " and %d more", len(beside)-maxPodsShown)
	}
	b.WriteString("\n  undo      armed before each fault, on a node or, where none can undo it, on this machine; due " +
		"after the time in \"at most\"; `seatrial heal` and `seatrial clean` with this --kubeconfig undo the rest\n")
}

// Steady returns an error unless a trial can begin on an existing cluster: no other harness uses it, it has the workers
// that the plan needs, and every node is Ready and schedulable. It only reads. Its error is plan.FieldErrors or a
// *lock.TakenError if the cluster answers.
//
// Only the nodes that the label query access.NodeSelector selects count. With an allow-list, access.FaultNodes, its
// nodes exist and are enough, and no pod of an existing StatefulSet is on another node.
func Steady(ctx context.Context, kube kubernetes.Interface, p plan.Plan, cluster string, access Access) error {
	allowed := access.FaultNodes
	holder, used, err := lock.UsedOn(ctx, kube)
	if err != nil {
		return err
	}
	if used {
		return &lock.TakenError{Cluster: cluster, Holder: holder}
	}
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: access.NodeSelector})
	if err != nil {
		return fmt.Errorf("list nodes of cluster %q: %w", cluster, err)
	}
	var errs plan.FieldErrors
	if len(nodes.Items) == 0 {
		errs.Add("--node-selector", "use labels that nodes have", "%q selects no node of cluster %q",
			access.NodeSelector, cluster)
	}
	workers := 0
	for _, n := range nodes.Items {
		if !world.IsControlPlane(n.Labels) && (len(allowed) == 0 || slices.Contains(allowed, n.Name)) {
			workers++
		}
		if why := unsteady(n); why != "" {
			errs.Add("workers", "wait until it is steady, or take the node out of the cluster", "cluster %q is not "+
				"steady: node %s %s", cluster, n.Name, why)
		}
	}
	needWorkers(&errs, p, workers, cluster)
	if err := mayStrike(ctx, kube, p, nodes.Items, allowed, &errs); err != nil {
		return err
	}
	return errs.Err()
}

// mayStrike adds an error for each node that is not on a list of allowed ones and that a fault would strike, as far as
// that is known, and for each on the list that does not exist.
func mayStrike(
	ctx context.Context, kube kubernetes.Interface, p plan.Plan, nodes []corev1.Node, allowed []string,
	errs *plan.FieldErrors,
) error {
	for _, name := range allowed {
		if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == name }) {
			errs.Add("--fault-nodes", "use names of nodes", "%q is no node", name)
		}
	}
	x := p.Workload.External
	if len(allowed) == 0 || x == nil || x.Namespace == "" {
		return nil
	}
	for _, f := range faultsOf(p) {
		name := fmt.Sprintf("%s-%d", p.Workload.StatefulSet, f.Ordinal)
		pod, err := kube.CoreV1().Pods(x.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue // A later look refuses it.
		}
		if err != nil {
			return fmt.Errorf("get pod %q: %w", name, err)
		}
		if !slices.Contains(allowed, pod.Spec.NodeName) {
			errs.Add("--fault-nodes", "add the node, or use another plan", "fault %q strikes node %q, which runs %s "+
				"and is not on the list", f.Name, pod.Spec.NodeName, name)
		}
	}
	return nil
}

// needWorkers adds an error if a cluster has fewer workers than the plan needs.
func needWorkers(errs *plan.FieldErrors, p plan.Plan, workers int, cluster string) {
	if workers < p.Workers {
		errs.Add("workers", "use a cluster with more, or another plan", "%d are needed, and cluster %q has %d",
			p.Workers, cluster, workers)
	}
}

// unsteady returns why no trial can begin while a node is as it is; empty if one can.
func unsteady(n corev1.Node) string {
	if n.Spec.Unschedulable {
		return "is cordoned"
	}
	if ready, text := fault.NodeIsReady(&n); !ready {
		return "is not Ready: " + text
	}
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return "has " + string(c.Type)
		}
	}
	return ""
}
