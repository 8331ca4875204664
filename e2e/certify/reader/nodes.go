package reader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/linux"
	"github.com/seatrial/seatrial/e2e/certify/audit"
)

// cgroups is where a node has its control groups (systemd's file-hierarchy).
const cgroups = "/sys/fs/cgroup"

// certificateMetric is how many seconds the certificate of a kubelet's client lasts.
const certificateMetric = "kubelet_certificate_manager_client_ttl_seconds"

// ReadNodes reads what only the nodes show: their mount tables, and the metrics of their kubelets through the API
// server. Unlike Read it needs nodes that run commands, and the right to nodes/proxy. All or none is read: what lacks a
// node is missing, with the reason.
func (r *Reader) ReadNodes(ctx context.Context, nodes []clusters.Node, c *audit.Cluster) {
	var all []audit.OnNode
	var errs []error
	for _, node := range nodes {
		one := audit.OnNode{Node: node.Name(), Gates: map[string]bool{}}
		errs = append(errs, readMounts(ctx, node, &one), readConfig(ctx, node, &one), r.readKubelet(ctx, &one))
		all = append(all, one)
	}
	if err := errors.Join(errs...); err != nil {
		c.Missing[audit.NodeData] = strings.ReplaceAll(err.Error(), "\n", "; ")
		return
	}
	c.OnNodes = all
	delete(c.Missing, audit.NodeData)
}

// readMounts reads the mount table of a node's first process, below which the kubelet mounts volumes.
func readMounts(ctx context.Context, node clusters.Node, one *audit.OnNode) error {
	table, err := clusters.Run(ctx, node, "cat", "/proc/1/mountinfo")
	if err != nil {
		return fmt.Errorf("read the mounts of node %s: %w", node.Name(), err)
	}
	mounts, err := linux.Mounts(table)
	if err != nil {
		return fmt.Errorf("read the mounts of node %s: %w", node.Name(), err)
	}
	for _, m := range mounts {
		if m.Mountpoint == cgroups {
			one.CgroupV1 = m.FSType != "cgroup2"
		}
		one.Mounts = append(one.Mounts, audit.Mount{Path: m.Mountpoint, Device: fmt.Sprintf("%d:%d", m.Major, m.Minor)})
	}
	return nil
}

// readConfig reads what the file of a kubelet's configuration says about cgroup v1. The kubelet itself tells only what
// came of that and of the default. A node need not have the file.
func readConfig(ctx context.Context, node clusters.Node, one *audit.OnNode) error {
	text, err := clusters.Run(ctx, node, "cat", audit.KubeletConfig)
	var exit *clusters.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	var config struct {
		FailCgroupV1 *bool `json:"failCgroupV1"`
	}
	if err == nil {
		err = yaml.Unmarshal([]byte(text), &config)
	}
	if err != nil {
		return fmt.Errorf("read %s of node %s: %w", audit.KubeletConfig, node.Name(), err)
	}
	one.CgroupV1Taken = config.FailCgroupV1 != nil && !*config.FailCgroupV1
	return nil
}

func (r *Reader) readKubelet(ctx context.Context, one *audit.OnNode) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read the metrics of the kubelet of node %s: %w", one.Node, err)
		}
	}()
	path := "/api/v1/nodes/" + one.Node + "/proxy/metrics"
	body, err := r.kube.CoreV1().RESTClient().Get().AbsPath(path).Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	now := time.Now()
	var wrong error
	err = eachMetric(body, func(name string, labels map[string]string, value string) {
		switch name {
		case gatesMetric:
			one.Gates[labels["name"]] = value == "1"
		case certificateMetric:
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil || seconds > (100*365*24*time.Hour).Seconds() { // +Inf: it has none.
				wrong = err
				return
			}
			one.CertificateEnds = now.Add(time.Duration(seconds) * time.Second)
		}
	})
	return errors.Join(err, wrong)
}

// ReadKubelets reads the configuration of some kubelets through the API server, which needs the right to nodes/proxy.
// It returns those that could be read, and errors for the others.
func (r *Reader) ReadKubelets(ctx context.Context, nodes []string) (map[string]map[string]any, error) {
	all := map[string]map[string]any{}
	var errs []error
	for _, node := range nodes {
		path := "/api/v1/nodes/" + node + "/proxy/configz"
		body, err := r.kube.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		var answer struct {
			Config map[string]any `json:"kubeletconfig"`
		}
		if err == nil {
			err = json.Unmarshal(body, &answer)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read the configuration of the kubelet of node %s: %w", node, err))
			continue
		}
		all[node] = answer.Config
	}
	return all, errors.Join(errs...)
}
