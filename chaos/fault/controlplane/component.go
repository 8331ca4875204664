package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// The leaders, by the name of their lease and program.
const (
	manager          = "kube-controller-manager"
	scheduler        = "kube-scheduler"
	managerNamespace = metav1.NamespaceSystem
)

// component is a control-plane program as kubeadm runs it: a static pod on every control-plane node.
type component struct {
	name   string // Of the program, its container and its manifest.
	scheme string // Of its health endpoint on the loopback addresses.
	port   int
	path   string
	part   plan.Part
	serves bool // Without it, the API server answers no request; the others hold a lease of their name.

	prefix, title      string // Of the names and of the prose of its faults.
	kill, freeze, stop string // Where each fault is known upstream.
}

// components returns the four programs, the kube-apiserver first, with their default ports
// (kubernetes.io/docs/reference/networking/ports-and-protocols).
func components() []component {
	return []component{
		{
			name: "kube-apiserver", scheme: "https", port: 6443, path: "/readyz", part: plan.PartAPIServer,
			serves: true,
			prefix: "apiserver", title: "the kube-apiserver",
			kill:   "k/k#65966", // Controllers exit if they cannot renew their leases.
			freeze: "k/k#59848", // Clients take a lagging server's data for current.
			stop:   "k/k#117745",
		},
		{
			// Only the metrics address serves its health without a client certificate.
			name: "etcd", scheme: "http", port: 2381, path: "/health", part: plan.PartEtcd, serves: true,
			prefix: "etcd", title: "etcd",
			kill:   "etcd-io/etcd tests/robustness/failpoint: KillFailpoint",
			freeze: "k/k#5589",  // Suspended etcd machines hung the whole control plane.
			stop:   "k/k#28350", // Scheduler and controllers exited with it, and nothing restarted them.
		},
		theManager(),
		{
			name: scheduler, scheme: "https", port: 10259, path: "/healthz", part: plan.PartScheduler,
			prefix: "scheduler", title: "the kube-scheduler",
			kill:   "kubernetes/kubernetes test/e2e/apps/daemon_restart.go",
			freeze: "k/k#101877", // A binding was abandoned half-way, and the pod could not be bound again.
			stop:   "kubernetes/kubernetes test/e2e/storage/static_pods.go",
		},
	}
}

func theManager() component {
	return component{
		name: manager, scheme: "https", port: 10257, path: "/healthz", part: plan.PartManager,
		prefix: "manager", title: "the kube-controller-manager",
		kill:   "kubernetes/kubernetes test/e2e/apps/daemon_restart.go",
		freeze: "k/k#107678", // The leader did not resume when the API server answered again.
		stop:   "k/k#115297", // The restarted one detached a volume.
	}
}

// manifest returns the name of its file in undo.ManifestDir.
func (c component) manifest() string { return c.name + ".yaml" }

// leaders returns the names of the leases that are renewed only while it works.
func (c component) leaders() []string {
	if c.serves {
		return []string{manager, scheduler}
	}
	return []string{c.name}
}

// urls returns the URLs of its health endpoint, IPv4 first. Not every component listens on both addresses.
func (c component) urls() []string {
	var all []string
	for _, host := range []string{"127.0.0.1", "::1"} {
		all = append(all, c.scheme+"://"+net.JoinHostPort(host, strconv.Itoa(c.port))+c.path)
	}
	return all
}

// health requests its health on a node and returns the HTTP status by URL, 0 without an answer within 2 s. The request
// comes from the node itself, so no network is involved. It asks one URL after the other, so a frozen component takes
// up to 4 s: curl asks several at once from 7.66 on only, and RHEL 8 has 7.61.
func (c component) health(ctx context.Context, node clusters.Node) (map[string]int, error) {
	argv := []string{"curl", "--silent", "--insecure", "--noproxy", "*", "--max-time", "2",
		"--write-out", `%{url_effective} %{http_code}\n`}
	for _, url := range c.urls() {
		argv = append(argv, "--output", "/dev/null", url)
	}
	out, err := clusters.Run(ctx, node, argv...)
	var exit *clusters.ExitError
	if err != nil && !errors.As(err, &exit) { // A failed request is an answer too.
		return nil, fmt.Errorf("ask for the health of %s: %w", c.name, err)
	}
	answers := map[string]int{}
	for line := range strings.Lines(out) {
		url, code, _ := strings.Cut(strings.TrimSpace(line), " ")
		status, bad := strconv.Atoi(code)
		if bad != nil || !slices.Contains(c.urls(), url) {
			return nil, fmt.Errorf("ask for the health of %s on node %q: answer %q", c.name, node.Name(), line)
		}
		answers[url] = status
	}
	if len(answers) != len(c.urls()) {
		return nil, fmt.Errorf("ask for the health of %s on node %q: %d answers for %d addresses: %w", c.name,
			node.Name(), len(answers), len(c.urls()), err)
	}
	return answers, nil
}

// processes returns the component's running processes on a node. Those of pods that the API server made are others',
// such as an etcd that is a database, or a control plane within the cluster. Their UIDs have hyphens, and those of
// static pods have none.
func (c component) processes(ctx context.Context, node clusters.Node) ([]probe.Process, error) {
	found, err := nodeagent.On(node).Processes(ctx, probe.Query{Programs: []string{c.name}})
	others := func(p probe.Process) bool { return strings.Contains(p.PodUID, "-") }
	return slices.DeleteFunc(found.Processes, others), err
}

// containers returns the ids of the component's running containers on a node, from the container runtime, without those
// of others' pods.
func (c component) containers(ctx context.Context, node clusters.Node) ([]string, error) {
	const namespace = "k8s.io" // The kubelet's, in containerd.
	out, err := clusters.Run(ctx, node, "ctr", "--namespace", namespace, "containers", "list", "--quiet",
		fmt.Sprintf("labels.%q==%s,labels.%q~=^[0-9a-f]+$,labels.%q==%s", "io.kubernetes.pod.namespace",
			metav1.NamespaceSystem, "io.kubernetes.pod.uid", "io.kubernetes.container.name", c.name))
	if err != nil {
		return nil, fmt.Errorf("look for containers of %s: %w", c.name, err)
	}
	tasks, err := clusters.Run(ctx, node, "ctr", "--namespace", namespace, "tasks", "list", "--quiet")
	if err != nil {
		return nil, fmt.Errorf("look for containers of %s: %w", c.name, err)
	}
	running := strings.Fields(tasks)
	return slices.DeleteFunc(strings.Fields(out), func(id string) bool { return !slices.Contains(running, id) }), nil
}

// eachControlNode calls do for every control-plane node and returns all errors.
func eachControlNode(ctx context.Context, env fault.Env, do func(clusters.Node) error) error {
	nodes, err := env.ControlPlane(ctx)
	if err != nil {
		return err
	}
	return fault.OnEach(nodes, do)
}

// leadership is the state of a leader's lease.
type leadership struct {
	holder   string
	renewed  time.Time
	renewals int // Seen so far; see victims.renewed.
}

func readLeadership(ctx context.Context, kube kubernetes.Interface, name string) (leadership, error) {
	lease, err := kube.CoordinationV1().Leases(managerNamespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return leadership{}, fmt.Errorf("get lease %s/%s: %w", managerNamespace, name, err)
	}
	var l leadership
	if lease.Spec.HolderIdentity != nil {
		l.holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.RenewTime != nil {
		l.renewed = lease.Spec.RenewTime.Time
	}
	return l, nil
}

const (
	requestBound = 3 * time.Second // When a request to the API server counts as unanswered. It takes milliseconds.
	lookEvery    = 2 * time.Second // A leader renews its lease at this interval.
)
