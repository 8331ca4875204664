package observe_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/observe/nodefacts"
)

const (
	heldImage    = "/var/lib/seatrial-held.img"
	heldMount    = "/mnt/held"
	heldManifest = "/etc/kubernetes/manifests/held.yaml"
)

// holdVolume gives a pod a volume, takes the volume from the node as umount -l does, and shows that the pod is still
// known to have it, until it ends. The image of pauses is on every node.
func holdVolume(t *testing.T, k *kept, node clusters.Node) {
	t.Helper()
	on := func(argv ...string) string {
		t.Helper()
		out, err := clusters.Run(t.Context(), node, argv...)
		must(t, err)
		return strings.TrimSpace(out)
	}
	var image string
	for ref := range strings.FieldsSeq(on("ctr", "--namespace", "k8s.io", "images", "list", "--quiet")) {
		if strings.Contains(ref, "/pause:") {
			image = ref
		}
	}
	on("truncate", "--size=32M", heldImage)
	on("mkfs.ext4", "-q", heldImage)
	loop := loopOver(t, node, heldImage)
	on("mkdir", "-p", heldMount)
	on("mount", loop, heldMount)
	manifest := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "held", "namespace": "kube-system"},
		"spec": {"hostNetwork": true, "terminationGracePeriodSeconds": 0,
			"containers": [{"name": "held", "image": "` + image + `", "imagePullPolicy": "Never",
				"volumeMounts": [{"name": "v", "mountPath": "/data"}]}],
			"volumes": [{"name": "v", "hostPath": {"path": "` + heldMount + `", "type": "Directory"}}]}}`
	_, err := node.Exec(t.Context(), clusters.Command{
		Argv: []string{"dd", "of=" + heldManifest, "status=none"}, Stdin: strings.NewReader(manifest),
	})
	must(t, err)
	of := func(action history.ProcessAction) func(history.Event) bool {
		return func(e history.Event) bool {
			h := e.Holding
			return h != nil && h.Node == node.Name() && h.Action == action && h.Identity.BackingFile == heldImage &&
				h.PodUID != ""
		}
	}
	e := k.await(t, "the pod that holds the volume", time.Minute, of(history.ProcessStarted))
	if h := e.Holding; h.Path != "/data" || len(h.Container) != 64 || h.Program != "pause" || h.ReadOnly {
		t.Errorf("holding %+v", h)
	}
	t.Logf("held by %+v, known to %v", e.Holding, e.Span.Length())

	on("umount", "--lazy", heldMount)
	k.await(t, "the end of the node's mount", 10*time.Second, func(m history.Event) bool {
		return m.Mount != nil && m.Mount.Node == node.Name() && m.Mount.Action == history.MountDetach &&
			m.Span.NotBefore > e.Span.NotBefore
	})
	ledgerCost(t, node, 20*time.Second)
	if gone := k.all(of(history.ProcessGone)); len(gone) > 0 {
		t.Errorf("umount -l on the node, and the pod has it no more: %+v", gone[0].Holding)
	}
	for _, e := range k.all(func(e history.Event) bool { return e.Holding != nil && e.Holding.PodUID == "" }) {
		t.Logf("another holding: %+v", e.Holding)
	}
	on("rm", heldManifest)
	gone := k.await(t, "the end of the pod", time.Minute, of(history.ProcessGone))
	t.Logf("given up: known to %v", gone.Span.Length())
	on("losetup", "--detach", loop)
	on("rm", heldImage)
}

// loopOver sets a loop device up over a file of the node. Its /dev has no file for a device that came after it.
func loopOver(t *testing.T, node clusters.Node, file string) string {
	t.Helper()
	for range 20 {
		loop, err := clusters.Run(t.Context(), node, "losetup", "--find")
		must(t, err)
		loop = strings.TrimSpace(loop)
		_, _ = clusters.Run(t.Context(), node, "mknod", loop, "b", "7", strings.TrimPrefix(loop, "/dev/loop"))
		if _, err = clusters.Run(t.Context(), node, "losetup", loop, file); err == nil {
			return loop
		}
		t.Logf("somebody else took %s: %v", loop, err)
	}
	t.Fatal("20 loop devices were taken by somebody else")
	return ""
}

// ledgerCost tells which share of a processor a ledger takes where nothing happens.
func ledgerCost(t *testing.T, node clusters.Node, during time.Duration) {
	t.Helper()
	ticks := func() int {
		show := []string{"systemctl", "show", "--property=MainPID", "--value", nodefacts.UnitName}
		pid, err := clusters.Run(t.Context(), node, show...)
		must(t, err)
		stat, err := clusters.Run(t.Context(), node, "cat", "/proc/"+strings.TrimSpace(pid)+"/stat")
		must(t, err)
		fields := strings.Fields(stat[strings.LastIndex(stat, ")"):])
		user, err := strconv.Atoi(fields[12])
		must(t, err)
		system, err := strconv.Atoi(fields[13])
		must(t, err)
		return user + system
	}
	before, begin := ticks(), time.Now()
	<-time.After(during)
	took := time.Duration(ticks()-before) * 10 * time.Millisecond
	share := 100 * took.Seconds() / time.Since(begin).Seconds()
	t.Logf("the ledger takes %.1f %% of a processor", share)
	if share > 5 {
		t.Errorf("the ledger takes %.1f %% of a processor, want at most 5 %%", share)
	}
}
