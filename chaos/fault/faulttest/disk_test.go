package faulttest_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// diskObjects are the volume of the workload's pod; its claim is made by renewClaim.
func diskObjects() []runtime.Object {
	return []runtime.Object{
		&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-1"},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.seatrial", VolumeHandle: "pvc-17"}}},
		},
	}
}

// diskPoint is a fault point of the disk's driver.
type diskPoint struct {
	rpc, volume, action string
	set                 time.Time
}

// points is the program of the shared disk. The driver reads a point at once, and is called every 5 s. The lock is
// held.
func (w *world) points(m *machine, argv []string) (string, int) {
	flags := map[string]string{}
	for i := 1; i+1 < len(argv); i += 2 {
		flags[argv[i]] = argv[i+1]
	}
	service, ok := strings.CutPrefix(flags["--state"], nodeagent.DiskStates)
	if !ok || service != "node" && service != "controller" {
		return "", 1
	}
	key := service + "/" + flags["--id"]
	switch argv[0] {
	case "set":
		if flags["--id"] == "" || flags["--rpc"] == "" || flags["--volume"] == "" || flags["--action"] == "" {
			return "", 1
		}
		if !w.inert {
			m.points[key] = diskPoint{flags["--rpc"], flags["--volume"], flags["--action"], time.Now()}
		}
		return "", 0
	case "clear":
		delete(m.points, key)
		return "", 0
	case "list":
		driver := map[string]any{"running": true, "pid": 61, "start": w.time(m.booted)}
		return encode(map[string]any{"driver": driver, "points": w.listPoints(m, service)}), 0
	}
	return "", 2
}

func (w *world) listPoints(m *machine, service string) []any {
	list := []any{}
	for _, key := range slices.Sorted(maps.Keys(m.points)) {
		id, ok := strings.CutPrefix(key, service+"/")
		if !ok {
			continue
		}
		p := m.points[key]
		hits, held := int(time.Since(p.set)/(5*time.Second)), []any{}
		if w.quiet {
			hits = 0
		}
		if p.action == "hold" && hits > 0 {
			held = append(held, map[string]any{"call": "7", "since": w.time(p.set.Add(5 * time.Second))})
		}
		list = append(list, map[string]any{
			"id": id, "rpc": p.rpc, "volume": p.volume, "action": p.action, "hits": hits, "holding": held, "read": true,
		})
	}
	return list
}
