package audit

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// onNodeRules are about what only the nodes themselves show.
func onNodeRules() []Rule {
	return []Rule{
		{
			Name:   "node-mounts",
			Looks:  "a volume mounted for a pod that is gone, staged for no pod, or mounted on two nodes",
			Why:    "a mount that is left behind writes to a disk that another node has",
			Source: "kubernetes issue 121937",
			Fix:    "compare `findmnt` on the node with its pods; restart the kubelet, or drain and reboot the node",
			Needs:  []Part{NodeData, Pods, Volumes},
			Moving: true,
			find:   nodeMounts,
		},
		{
			Name:  "node-kubelets",
			Looks: "kubelets of one version with different feature gates, or with a client certificate that ends",
			Why: "a kubelet whose certificate has ended does not come back; kubelets that differ treat the same " +
				"volume in different ways",
			Source: "Certificate Management with kubeadm (docs/tasks/administer-cluster/kubeadm/kubeadm-certs/)",
			Fix:    "on each node: `openssl x509 -enddate -noout -in /var/lib/kubelet/pki/kubelet-client-current.pem`",
			Needs:  []Part{NodeData, Nodes},
			find:   nodeKubelets,
		},
	}
}

// podMount is the path at which the kubelet mounts a volume for a pod (pkg/kubelet/config/defaults.go, GetPath of the
// volume plugins): ROOT/pods/UID/volumes/PLUGIN/VOLUME[/mount].
var podMount = regexp.MustCompile(`/pods/([0-9a-f-]{36})/volumes/([^/]+)/([^/]+)(?:/mount)?$`)

// globalMount is the path at which the kubelet has a CSI driver stage a volume (pkg/volume/csi/csi_attacher.go).
var globalMount = regexp.MustCompile(`/plugins/kubernetes\.io/csi/.+/globalmount$`)

// ephemeral are the plugins whose volumes hold no data beyond their pod.
func ephemeral(plugin string) bool {
	return slices.Contains([]string{"kubernetes.io~configmap", "kubernetes.io~downward-api", "kubernetes.io~empty-dir",
		"kubernetes.io~projected", "kubernetes.io~secret"}, plugin)
}

func nodeMounts(r *ruling) {
	nodesOf := map[string][]string{} // By volume.
	for _, n := range r.OnNodes {
		used := map[string]bool{} // Devices that are mounted for pods.
		for _, m := range n.Mounts {
			match := podMount.FindStringSubmatch(m.Path)
			if match == nil || ephemeral(match[2]) {
				continue
			}
			uid, volume := match[1], match[3]
			used[m.Device] = true
			if !slices.Contains(nodesOf[volume], n.Node) {
				nodesOf[volume] = append(nodesOf[volume], n.Node)
			}
			here := func(p *corev1.Pod) bool { return string(p.UID) == uid }
			if !slices.ContainsFunc(r.podsOn[n.Node], here) {
				r.found(Danger, []Object{{"Node", "", n.Node}, {"PersistentVolume", "", volume}},
					"volume %s is mounted on node %s for pod %s, which is not there: %s", volume, n.Node, uid, m.Path)
			}
		}
		for _, m := range n.Mounts {
			if globalMount.MatchString(m.Path) && !used[m.Device] {
				r.found(Danger, []Object{{"Node", "", n.Node}},
					"a volume is staged on node %s, and no pod there has it: %s", n.Node, m.Path)
			}
		}
	}
	for _, volume := range slices.Sorted(maps.Keys(nodesOf)) {
		if on := nodesOf[volume]; len(on) > 1 && r.volumes[volume] != nil && !onManyNodes(r.volumes[volume]) {
			r.found(Danger, []Object{{"PersistentVolume", "", volume}}, "volume %s, %s, is mounted on %d nodes "+
				"at once: %s", volume, modes(r.volumes[volume]), len(on), strings.Join(on, ", "))
		}
	}
}

func nodeKubelets(r *ruling) {
	like := map[string]OnNode{} // The first node of each version.
	for _, n := range r.OnNodes {
		where := []Object{{"Node", "", n.Node}}
		switch left := n.CertificateEnds.Sub(r.At); {
		case n.CertificateEnds.IsZero():
			r.unseen("the kubelet of node %s does not tell when its client certificate ends", n.Node)
		case left <= 0:
			r.found(Danger, where, "the client certificate of the kubelet of node %s has ended", n.Node)
		case left <= 24*time.Hour: // A kubelet renews it long before (KEP-266), whatever its lifetime is.
			r.found(Warning, where, "the client certificate of the kubelet of node %s ends in %s", n.Node,
				left.Round(time.Minute))
		}
		version := ""
		if r.nodes[n.Node] != nil {
			version = r.nodes[n.Node].Status.NodeInfo.KubeletVersion
		}
		first, ok := like[version]
		if !ok {
			like[version] = n
			continue
		}
		var differ []string
		for _, gate := range slices.Sorted(maps.Keys(first.Gates)) {
			if on, known := n.Gates[gate]; known && on != first.Gates[gate] {
				differ = append(differ, gate)
			}
		}
		if len(differ) > 0 {
			r.found(Warning, append(where, Object{"Node", "", first.Node}), "the kubelets of nodes %s and %s, both "+
				"%s, have different feature gates: %s", n.Node, first.Node, version, names(differ))
		}
	}
}
