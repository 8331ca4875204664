package controlplane

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/clusters"
)

// The kube-controller-manager, as the API and the kubelet know it.
const (
	manager          = "kube-controller-manager"
	managerNamespace = "kube-system"
)

// process is a kube-controller-manager that runs.
type process struct {
	node string
	pid  string
	argv []string
}

// managers returns the kube-controller-managers that run on a node, by their pids.
func managers(ctx context.Context, node clusters.Node) ([]process, error) {
	out, err := clusters.Run(ctx, node, "pgrep", "-x", manager[:15]) // The kernel keeps 15 characters of a name.
	var exit *clusters.ExitError
	if errors.As(err, &exit) && exit.ExitCode == 1 {
		return nil, nil // There is none.
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", manager, err)
	}
	var all []process
	for _, pid := range strings.Fields(out) {
		line, err := clusters.Run(ctx, node, "cat", "/proc/"+pid+"/cmdline")
		if errors.As(err, &exit) {
			continue // It has ended in between.
		}
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", manager, err)
		}
		argv := strings.Split(strings.TrimSuffix(line, "\x00"), "\x00")
		if path.Base(argv[0]) == manager { // One that has ended and is not buried has no command line.
			all = append(all, process{node: node.Name(), pid: pid, argv: argv})
		}
	}
	slices.SortFunc(all, func(a, b process) int { return strings.Compare(a.pid, b.pid) })
	return all, nil
}

// leadership is the lease of the component's process that leads.
type leadership struct {
	holder  string
	renewed time.Time
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
