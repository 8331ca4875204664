// Package volumemanager records what the volume managers of kubelets say of the volumes of their nodes: how many there
// should be (the desired state of the world), how many there are (the actual state), and what failed.
//
// It asks through the API server, which needs the right to nodes/proxy.
package volumemanager

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

const (
	every = 2 * time.Second
	bound = 5 * time.Second // For one answer.
)

// The names of metrics, with their labels.
const (
	volumes    = "volume_manager_total_volumes"       // plugin_name, state
	operations = "storage_operation_duration_seconds" // volume_plugin, status
	desired    = "desired_state_of_world"             // A state.
	actual     = "actual_state_of_world"              // A state.
)

// Watch records what the kubelets of the nodes say, as often as it changes, until stop is called.
func Watch(ctx context.Context, kube kubernetes.Interface, nodes []clusters.Node, to history.Recorder) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, n := range nodes {
		node := n.Name()
		known := map[string]history.VolumeManager{} // By plugin.
		all.Go(func() {
			wait.UntilWithContext(ctx, func(ctx context.Context) { ask(ctx, kube, node, known, to) }, every)
		})
	}
	return func() { cancel(); all.Wait() }
}

// ask asks the kubelet of a node once, and records what differs from what is known.
func ask(ctx context.Context, kube kubernetes.Interface, node string, known map[string]history.VolumeManager,
	to history.Recorder,
) {
	begin := bootclock.Now()
	now, err := read(ctx, kube, node)
	if ctx.Err() != nil {
		return
	}
	if _, failed := known[""]; failed && err != nil {
		return // The first error is on record; the text of the next differs, by the port.
	}
	if err != nil {
		now = map[string]history.VolumeManager{"": {Node: node, Error: err.Error()}}
	}
	span := history.Between(begin, bootclock.Now())
	for plugin := range known {
		if _, has := now[plugin]; !has && err == nil && plugin != "" {
			now[plugin] = history.VolumeManager{Node: node, Plugin: plugin} // Of no volumes there is no metric.
		}
	}
	for _, plugin := range slices.Sorted(maps.Keys(now)) {
		if m := now[plugin]; known[plugin] != m {
			to.Record(history.Event{Kind: history.KindVolumeManager, Source: "kubelet/" + node, Span: span,
				VolumeManager: &m})
		}
	}
	clear(known) // After an error everything is recorded again.
	maps.Copy(known, now)
}

// read returns what the kubelet of a node says of the plugins that databases have their volumes from.
func read(ctx context.Context, kube kubernetes.Interface, node string) (map[string]history.VolumeManager, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	body, err := kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + node + "/proxy/metrics").Stream(ctx)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(body)
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	said := map[string]history.VolumeManager{}
	add := func(name, label string, count func(*history.VolumeManager, *dto.Metric)) {
		for _, metric := range families[name].GetMetric() {
			plugin := labelOf(metric, label)
			own := strings.HasPrefix(plugin, "kubernetes.io/csi:") || plugin == "kubernetes.io/local-volume"
			if !own && strings.HasPrefix(plugin, "kubernetes.io/") {
				continue // Configuration and host paths, which pods of the system have too. Others are FlexVolumes.
			}
			m := said[plugin]
			m.Node, m.Plugin = node, plugin
			count(&m, metric)
			said[plugin] = m
		}
	}
	add(volumes, "plugin_name", func(m *history.VolumeManager, metric *dto.Metric) {
		switch n := int(metric.GetGauge().GetValue()); labelOf(metric, "state") {
		case desired:
			m.Desired = n
		case actual:
			m.Actual = n
		}
	})
	add(operations, "volume_plugin", func(m *history.VolumeManager, metric *dto.Metric) {
		if labelOf(metric, "status") != "success" {
			m.Failed += int(metric.GetHistogram().GetSampleCount())
		}
	})
	return said, nil
}

func labelOf(metric *dto.Metric, name string) string {
	for _, l := range metric.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
