package audit

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/e2e/world"
)

const (
	// soon and verySoon are how long before its end a certificate is named.
	soon, verySoon = 30 * 24 * time.Hour, 7 * 24 * time.Hour
	// forceDetach is the flag that turns force-detach off.
	forceDetach = "disable-force-detach-on-timeout"
)

// nodeRules look at nodes and at the control plane.
func nodeRules() []Rule {
	return []Rule{
		{
			Name:   "nodes",
			Looks:  "a node is not Ready, under pressure or cordoned",
			Why:    "drained pods have less room, and pods on a node that is not Ready may still run and write",
			Source: "Node Status (docs/reference/node/node-status/)",
			Fix:    "repair the node before the upgrade, or power it off and remove it",
			Needs:  []Part{Nodes},
			find:   unfitNodes,
		},
		{
			Name:  "force-detach",
			Looks: "the controller manager force-detaches volumes from nodes that are not Ready for 6 minutes",
			Why:   "a node that is cut off but alive still writes to the volume when another node gets it",
			Source: "kubernetes issue 61832; Node Shutdowns, Force storage detach on timeout " +
				"(docs/concepts/cluster-administration/node-shutdown/)",
			Fix: "start kube-controller-manager with --disable-force-detach-on-timeout=true, and taint nodes that " +
				"are off with node.kubernetes.io/out-of-service",
			Needs: []Part{Attachments, Pods},
			find:  forceDetachable,
		},
		{
			Name:   "certificates",
			Looks:  "the certificate of the API server's address ends within 30 days",
			Why:    "after its end no client, kubelet or controller reaches the API server: nothing fails over",
			Source: "Certificate Management with kubeadm (docs/tasks/administer-cluster/kubeadm/kubeadm-certs/)",
			Fix:    "renew it (`kubeadm certs renew apiserver`; kubeadm upgrade renews it too), restart the API server",
			Needs:  []Part{Certificate},
			find:   certificates,
		},
	}
}

func unfitNodes(r *ruling) {
	unfit := []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
		corev1.NodeNetworkUnavailable}
	for node := range each(r.Nodes) {
		where := []Object{object("Node", node)}
		isReady := false
		var pressure []string
		for _, c := range node.Status.Conditions {
			switch {
			case c.Type == corev1.NodeReady:
				isReady = c.Status == corev1.ConditionTrue
			case c.Status == corev1.ConditionTrue && slices.Contains(unfit, c.Type):
				pressure = append(pressure, string(c.Type))
			}
		}
		if !isReady {
			r.found(Danger, where, "node %s is not Ready", node.Name)
		}
		if len(pressure) > 0 {
			r.found(Danger, where, "node %s is unfit: %s", node.Name, names(pressure))
		}
		if node.Spec.Unschedulable {
			r.found(Note, where, "node %s is cordoned", node.Name)
		}
	}
}

// Component returns the pods of a part of the control plane. Where the control plane is hidden there are none.
func (c Cluster) Component(name string) []*corev1.Pod {
	var pods []*corev1.Pod
	for p := range each(c.Pods) {
		if p.Namespace == metav1.NamespaceSystem && !ended(p) &&
			(p.Labels["component"] == name || p.Labels["k8s-app"] == name) {
			pods = append(pods, p)
		}
	}
	return pods
}

// GatesFlag is the flag that sets feature gates.
const GatesFlag = "feature-gates"

// Flags returns the command line flags of a pod, without dashes. Of one that is given twice the last value counts;
// those of GatesFlag add up.
func Flags(p *corev1.Pod) map[string]string {
	flags := map[string]string{}
	for _, c := range p.Spec.Containers {
		words := slices.Concat(c.Command, c.Args)
		for i, word := range words {
			word, ok := strings.CutPrefix(word, "--")
			if !ok {
				continue
			}
			name, value, ok := strings.Cut(word, "=")
			if !ok {
				value = "true"
				if i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
					value = words[i+1]
				}
			}
			if before := flags[name]; name == GatesFlag && before != "" {
				value = before + "," + value
			}
			flags[name] = value
		}
	}
	return flags
}

func forceDetachable(r *ruling) {
	managers := r.Component("kube-controller-manager")
	if len(managers) == 0 {
		r.unseen("kube-controller-manager has no pod in kube-system: its flags are not visible; ask who runs it for "+
			"--%s",
			forceDetach)
	}
	for _, p := range managers {
		value := Flags(p)[forceDetach]
		if off, err := strconv.ParseBool(value); err == nil && off {
			continue
		}
		if n := len(r.Attachments); n > 0 {
			r.found(Warning, []Object{object("Pod", p)}, "%s detaches volumes by force: --%s is not set, and %d "+
				"VolumeAttachments can meet that", p.Name, forceDetach, n)
		} else {
			r.found(Note, []Object{object("Pod", p)}, "%s would detach volumes by force: --%s is not set; there is no "+
				"VolumeAttachment today", p.Name, forceDetach)
		}
	}
}

func certificates(r *ruling) {
	left := r.CertificateEnds.Sub(r.At)
	days := int(left / (24 * time.Hour))
	day := r.CertificateEnds.UTC().Format(time.DateOnly)
	switch {
	case left <= 0:
		r.found(Danger, []Object{}, "the certificate of the API server's address ended on %s", day)
	case left <= verySoon:
		r.found(Danger, []Object{}, "the certificate of the API server's address ends on %s, in %d days", day, days)
	case left <= soon:
		r.found(Warning, []Object{}, "the certificate of the API server's address ends on %s, in %d days", day, days)
	}
}

// imageVersion returns the version that the tag of an image names.
func imageVersion(p *corev1.Pod) string {
	tag := regexp.MustCompile(`:(v\d+\.\d+\.\d+[^@:/]*)(@.*)?$`)
	for _, c := range p.Spec.Containers {
		if m := tag.FindStringSubmatch(c.Image); m != nil {
			return m[1]
		}
	}
	return ""
}

// onNodeRules are about what only the nodes themselves show.
func onNodeRules() []Rule {
	return []Rule{
		{
			Name:   "node-mounts",
			Looks:  "a volume mounted for a pod that is gone, staged for no pod, or mounted on two nodes",
			Why:    "a mount left behind writes to a disk that another node has",
			Source: "kubernetes issue 121937",
			Fix:    "compare `findmnt` on the node with its pods; restart the kubelet, or drain and reboot the node",
			Needs:  []Part{NodeData, Pods, Volumes},
			Moving: true,
			find:   nodeMounts,
		},
		{
			Name:  "node-kubelets",
			Looks: "kubelets of one version with different feature gates, or with a client certificate about to end",
			Why: "a kubelet with an ended certificate does not come back; kubelets that differ treat one volume " +
				"differently",
			Source: "Certificate Management with kubeadm (docs/tasks/administer-cluster/kubeadm/kubeadm-certs/)",
			Fix:    "on each node: `openssl x509 -enddate -noout -in /var/lib/kubelet/pki/kubelet-client-current.pem`",
			Needs:  []Part{NodeData, Nodes},
			find:   nodeKubelets,
		},
		{
			Name:   "node-cgroups",
			Looks:  "a node with cgroup v1 whose kubelet is to be v1.35 or later, and does not say failCgroupV1: false",
			Why:    "the new kubelet does not start there: the node stays NotReady after its upgrade, drained",
			Source: "KEP-4569; About cgroup v2 (docs/concepts/architecture/cgroups/)",
			Fix: "move the node to cgroup v2, or set failCgroupV1: false in the ConfigMap kubelet-config of " +
				"kube-system and in " + KubeletConfig + " of the node",
			Needs: []Part{NodeData, Nodes},
			find:  nodeCgroups,
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
		on, v := nodesOf[volume], r.volumes[volume]
		if len(on) > 1 && v != nil && !world.ManyNodes(v.Spec.AccessModes) {
			r.found(Danger, []Object{{"PersistentVolume", "", volume}}, "volume %s, %s, is mounted on %d nodes "+
				"at once: %s", volume, world.AccessModes(v.Spec.AccessModes), len(on), strings.Join(on, ", "))
		}
	}
}

// noCgroupV1 is the minor version from which on a kubelet refuses cgroup v1 by default.
const noCgroupV1 = 35

func nodeCgroups(r *ruling) {
	for _, n := range r.OnNodes {
		node := r.nodes[n.Node]
		if !n.CgroupV1 || n.CgroupV1Taken || node == nil || r.upgrade.to < noCgroupV1 {
			continue
		}
		// One that refuses it by default and runs has been told otherwise.
		is, err := minor(node.Status.NodeInfo.KubeletVersion)
		if err == nil && is < noCgroupV1 {
			r.found(Danger, []Object{{"Node", "", n.Node}}, "node %s has cgroup v1, its kubelet is %s, and %s does "+
				"not set failCgroupV1: false", n.Node, node.Status.NodeInfo.KubeletVersion, KubeletConfig)
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
