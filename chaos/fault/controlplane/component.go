package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// scheduler is the kube-scheduler, as the API and the kubelet know it.
const scheduler = "kube-scheduler"

// component is a program of the control plane, as kubeadm makes it: a static pod on every node of the control plane.
type component struct {
	name   string // Of its program, its container and its manifest.
	scheme string // Of its health endpoint, which it has on the loopback addresses.
	port   int
	path   string
	part   plan.Part
	serves bool // No request to the API server is answered without it; the others lead by a lease of their name.
}

// The components, with the ports that are theirs by default
// (kubernetes.io/docs/reference/networking/ports-and-protocols).

func theManager() component {
	return component{name: manager, scheme: "https", port: 10257, path: "/healthz", part: plan.PartManager}
}

func theScheduler() component {
	return component{name: scheduler, scheme: "https", port: 10259, path: "/healthz", part: plan.PartScheduler}
}

func theAPIServer() component {
	return component{
		name: "kube-apiserver", scheme: "https", port: 6443, path: "/readyz", part: plan.PartAPIServer, serves: true,
	}
}

// Etcd tells its health without a client certificate only at its address for metrics.
func theEtcd() component {
	return component{
		name: "etcd", scheme: "http", port: 2381, path: "/health", part: plan.PartEtcd, serves: true,
	}
}

// manifest is the name of its file in undo.ManifestDir.
func (c component) manifest() string { return c.name + ".yaml" }

// leaders are those whose leases must be renewed for it to be at work.
func (c component) leaders() []string {
	if c.serves {
		return []string{manager, scheduler}
	}
	return []string{c.name}
}

// urls are where its health may be told, IPv4 first. Not every component listens at both addresses.
func (c component) urls() []string {
	var all []string
	for _, host := range []string{"127.0.0.1", "::1"} {
		all = append(all, c.scheme+"://"+net.JoinHostPort(host, strconv.Itoa(c.port))+c.path)
	}
	return all
}

const healthOK = 200

// health asks for its health on a node and returns the answers by their URLs: the HTTP status, or 0 where none came
// within 2 s. The node asks itself, so no network is in between.
func (c component) health(ctx context.Context, node clusters.Node) (map[string]int, error) {
	argv := []string{"curl", "--silent", "--insecure", "--noproxy", "*", "--parallel", "--max-time", "2",
		"--write-out", `%{url_effective} %{http_code}\n`}
	for _, url := range c.urls() {
		argv = append(argv, "--output", "/dev/null", url)
	}
	out, err := clusters.Run(ctx, node, argv...)
	var exit *clusters.ExitError
	if err != nil && !errors.As(err, &exit) { // One that says that nothing answered is an answer.
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

// processes returns the processes of the component that live on a node.
func (c component) processes(ctx context.Context, node clusters.Node) ([]probe.Process, error) {
	out, err := clusters.Run(ctx, node, undo.AgentPath, "probe", "process", "--program", c.name)
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", c.name, err)
	}
	var found probe.Processes
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return nil, fmt.Errorf("look for %s: decode answer %.80q: %w", c.name, out, err)
	}
	return found.Processes, nil
}

// containers returns the ids of the component's containers that are running on a node, as the container runtime has it.
func (c component) containers(ctx context.Context, node clusters.Node) ([]string, error) {
	const namespace = "k8s.io" // The kubelet's, in containerd.
	out, err := clusters.Run(ctx, node, "ctr", "--namespace", namespace, "containers", "list", "--quiet",
		fmt.Sprintf("labels.%q==%s", "io.kubernetes.container.name", c.name))
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

// controlNodes returns the nodes of the control plane.
func controlNodes(ctx context.Context, env fault.Env) ([]clusters.Node, error) {
	all, err := env.Cluster.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	all = slices.DeleteFunc(all, func(n clusters.Node) bool { return n.Role() != clusters.RoleControlPlane })
	if len(all) == 0 {
		return nil, errors.New("list nodes: none is of the control plane")
	}
	return all, nil
}

// eachControlNode does something on every node of the control plane, and goes on after an error.
func eachControlNode(ctx context.Context, env fault.Env, do func(clusters.Node) error) error {
	nodes, err := controlNodes(ctx, env)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range nodes {
		errs = append(errs, do(n))
	}
	return errors.Join(errs...)
}

// requestBound is when a request to the API server has not been answered. It takes milliseconds on an idle machine.
const requestBound = 3 * time.Second
