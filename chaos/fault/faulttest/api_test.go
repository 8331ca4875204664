package faulttest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
)

// objects are what the API server has. Writes go through a node called "api", so that they are acts as well: they are
// in the transcript, and break when it does.
type objects struct {
	known    map[string]*corev1.Node // By name; those that are deleted are not in it.
	uids     int                     // How many were given out.
	pod      *corev1.Pod             // Nil while there is none.
	podBack  time.Time               // When its controller makes the next one.
	notReady bool                    // No node says that it is Ready.
	busy     int                     // So many updates are refused: somebody else was quicker.
	moved    bool                    // A Node that registers anew gets another pod range.
	lists    bool                    // The peer's pod is in lists too.
	lost     bool                    // No controller makes another pod.
	forbids  bool                    // Nobody may ask in another's name.
}

const (
	podGrace   = 2 * time.Second // Of the workload's pod.
	podPause   = time.Second     // Until its controller makes another.
	collecting = 20 * time.Second
)

func (w *world) makeObjects() {
	w.known = map[string]*corev1.Node{}
	for _, m := range w.nodes {
		w.register(m)
		n := w.known[m.node.Name()]
		n.UID = types.UID("first-" + n.Name)
		n.Labels["zone"] = "one"
		n.Annotations = map[string]string{"made-by": "kind"}
		n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	w.makePod(workloadUID)
	w.api = fake.NewNode("api", clusters.RoleControlPlane, w.cluster.Transcript)
}

// register does what a kubelet does at its start: it creates its Node if there is none.
func (w *world) register(m *machine) {
	name := m.node.Name()
	if w.known[name] != nil || w.inert {
		return
	}
	w.uids++
	cidr := "10.244.0.0/24"
	if w.moved {
		cidr = fmt.Sprintf("10.244.%d.0/24", w.uids)
	}
	w.known[name] = &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(fmt.Sprintf("node-%d", w.uids)), ResourceVersion: "1",
			Labels: map[string]string{"kubernetes.io/hostname": name},
		},
		Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr}},
	}
}

func (w *world) makePod(uid string) {
	seconds := int64(podGrace / time.Second)
	w.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "trial", Name: "mysql-1", UID: types.UID(uid)},
		Spec: corev1.PodSpec{
			NodeName: "c-worker", TerminationGracePeriodSeconds: &seconds,
			Volumes: []corev1.Volume{{Name: "tmp"}, {Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-mysql-1"}}}},
			Containers: []corev1.Container{{Name: "mysql", Ports: mysqlPorts()}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: podIPs("mysql-1"),
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// control does the controllers' work. The lock is held.
func (w *world) control() {
	for _, m := range w.nodes {
		w.catchUp(m)
	}
	now := time.Now()
	evicts := false
	for _, n := range w.known {
		cordoned := func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnschedulable }
		has := slices.ContainsFunc(n.Spec.Taints, cordoned)
		if n.Spec.Unschedulable && !has {
			n.Spec.Taints = append(n.Spec.Taints,
				corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
		} else if !n.Spec.Unschedulable && has {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, cordoned)
		}
		status := corev1.ConditionTrue
		if w.notReady {
			status = corev1.ConditionUnknown
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: "Said"}}
		evicts = evicts || n.Name == "c-worker" && slices.ContainsFunc(n.Spec.Taints,
			func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	}
	if evicts && w.pod != nil && w.pod.UID == workloadUID && w.pod.DeletionTimestamp == nil {
		w.terminate(podGrace)
		if w.notReady { // No kubelet ends it; the garbage collector takes it out.
			w.pod.DeletionTimestamp.Time = now.Add(collecting)
		}
	}
	if w.pod != nil && w.pod.DeletionTimestamp != nil && !w.pod.DeletionTimestamp.After(now) {
		w.pod, w.podBack = nil, now.Add(podPause)
	}
	if w.pod == nil && !w.lost && !w.podBack.After(now) {
		w.uids++
		w.makePod(fmt.Sprintf("pod-%d", w.uids))
	}
	if w.pod != nil {
		w.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "mysql", ContainerID: w.nodes["c-worker"].containerID(),
			RestartCount: int32(w.nodes["c-worker"].kills),
			State:        corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
	}
}

// terminate starts the pod's deletion. As in the API, its timestamp is when the pod will be gone.
func (w *world) terminate(grace time.Duration) {
	seconds := int64(grace / time.Second)
	at := metav1.NewTime(time.Now().Add(grace))
	w.pod.DeletionTimestamp, w.pod.DeletionGracePeriodSeconds = &at, &seconds
}

var errNotWritten = errors.New("the API server cannot be reached")

// write is an act on the API server; do makes the change.
func (w *world) write(argv []string, body string, do func() error) error {
	var failed error
	w.api.On([]string{"..."}, fake.Reply{Do: func(context.Context, clusters.Command, string) (clusters.Result, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.control()
		if !w.inert {
			failed = do()
		}
		return clusters.Result{}, nil
	}})
	_, err := w.api.Exec(context.Background(), clusters.Command{Argv: argv, Stdin: bytes.NewBufferString(body)})
	if err != nil {
		return errors.Join(errNotWritten, err)
	}
	return failed
}

// kube is the API server of the world.
func (w *world) kube() *kubefake.Clientset {
	kube := kubefake.NewClientset(append(diskObjects(), dnsService())...)
	w.objectFaults(kube)
	read := func(verb, resource string, do func(name string) runtime.Object) {
		kube.PrependReactor(verb, resource, func(a k8stesting.Action) (bool, runtime.Object, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.control()
			name := ""
			if get, ok := a.(k8stesting.GetAction); ok {
				name = get.GetName()
			}
			if obj := do(name); obj != nil {
				return true, obj.DeepCopyObject(), nil
			}
			return true, nil, apierrors.NewNotFound(a.GetResource().GroupResource(), name)
		})
	}
	read("list", "leases", func(string) runtime.Object {
		list := &coordinationv1.LeaseList{}
		seconds := int32(40)
		for name, m := range w.nodes {
			at := metav1.NewMicroTime(m.renewed)
			list.Items = append(list.Items, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &at}})
		}
		return list
	})
	read("get", "leases", func(name string) runtime.Object { return w.leadership(name) })
	read("get", "nodes", func(name string) runtime.Object {
		if n := w.known[name]; n != nil {
			return n
		}
		return nil
	})
	read("list", "nodes", func(string) runtime.Object {
		list := &corev1.NodeList{}
		for _, n := range w.known {
			list.Items = append(list.Items, *n)
		}
		return list
	})
	read("get", "csinodes", func(name string) runtime.Object {
		if w.known[name] == nil {
			return nil
		}
		return &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "disk"}}}}
	})
	read("list", "pods", func(string) runtime.Object {
		list := &corev1.PodList{}
		if w.pod != nil {
			list.Items = append(list.Items, *w.pod)
		}
		if w.lists {
			list.Items = append(list.Items, *peer())
		}
		return list
	})
	read("get", "pods", func(name string) runtime.Object {
		if name == peerPod {
			return peer()
		}
		if w.pod != nil {
			return w.pod
		}
		return nil
	})
	kube.PrependReactor("delete", "pods", w.deletePod)
	kube.PrependReactor("delete", "nodes", w.deleteNode)
	kube.PrependReactor("update", "nodes", w.updateNode)
	kube.PrependReactor("patch", "nodes", func(a k8stesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		act := a.(k8stesting.PatchActionImpl)
		if !w.patchNode(act.Name, string(act.Patch)) {
			return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), act.Name,
				errors.New("it was modified"))
		}
		return true, w.known[act.Name].DeepCopy(), nil
	})
	kube.PrependReactor("create", "resourcequotas", w.countQuota)
	kube.PrependReactor("list", "pods", w.listProxies)
	kube.PrependReactor("list", "pods", w.listDNS)
	kube.PrependReactor("*", "*", w.unanswered)
	return kube
}

// countQuota does what the quota controller does with a new quota.
func (w *world) countQuota(a k8stesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if create, ok := a.(k8stesting.CreateAction); ok && !w.inert && w.pod != nil {
		quota := create.GetObject().(*corev1.ResourceQuota)
		if quota.Labels[clusters.ManagedByLabel] != clusters.ManagedBy {
			return true, nil, fmt.Errorf("the quota has the labels %v", quota.Labels)
		}
		quota.Status.Hard = quota.Spec.Hard
		quota.Status.Used = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(1, resource.DecimalSI)}
	}
	return false, nil, nil
}

// stale is the error of a deletion whose precondition fails.
func stale(resource schema.GroupResource, name string) error {
	return apierrors.NewConflict(resource, name, errors.New("the uid is another"))
}

func (w *world) deletePod(a k8stesting.Action) (bool, runtime.Object, error) {
	act, resource := a.(k8stesting.DeleteActionImpl), a.GetResource().GroupResource()
	uid, grace := *act.DeleteOptions.Preconditions.UID, podGrace
	argv := []string{"delete", "pod", act.Namespace + "/" + act.Name, "--uid=" + string(uid)}
	if s := act.DeleteOptions.GracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
		argv = append(argv, fmt.Sprintf("--grace-period=%d", *s))
	}
	return true, nil, w.write(argv, "", func() error {
		switch {
		case w.pod == nil:
			return apierrors.NewNotFound(resource, act.Name)
		case w.pod.UID != uid:
			return stale(resource, act.Name)
		}
		w.terminate(grace)
		w.control()
		return nil
	})
}

func (w *world) deleteNode(a k8stesting.Action) (bool, runtime.Object, error) {
	act, resource := a.(k8stesting.DeleteActionImpl), a.GetResource().GroupResource()
	uid := *act.DeleteOptions.Preconditions.UID
	return true, nil, w.write([]string{"delete", "node", act.Name, "--uid=" + string(uid)}, "", func() error {
		switch {
		case w.known[act.Name] == nil:
			return apierrors.NewNotFound(resource, act.Name)
		case w.known[act.Name].UID != uid:
			return stale(resource, act.Name)
		}
		delete(w.known, act.Name)
		return nil
	})
}

func (w *world) updateNode(a k8stesting.Action) (bool, runtime.Object, error) {
	node := a.(k8stesting.UpdateAction).GetObject().(*corev1.Node).DeepCopy()
	var body strings.Builder
	for _, key := range slices.Sorted(maps.Keys(node.Labels)) {
		fmt.Fprintf(&body, "label %s=%s\n", key, node.Labels[key])
	}
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		fmt.Fprintf(&body, "annotation %s=%s\n", key, node.Annotations[key])
	}
	fmt.Fprintf(&body, "unschedulable %t\n", node.Spec.Unschedulable)
	for _, t := range node.Spec.Taints {
		fmt.Fprintf(&body, "taint %s\n", t.ToString())
	}
	return true, node, w.write([]string{"update", "node", node.Name}, body.String(), func() error {
		resource := a.GetResource().GroupResource()
		now := w.known[node.Name]
		if now == nil {
			return apierrors.NewNotFound(resource, node.Name)
		}
		if w.busy > 0 || now.ResourceVersion != node.ResourceVersion || now.UID != node.UID {
			w.busy--
			return apierrors.NewConflict(resource, node.Name, errors.New("the object has been modified"))
		}
		node.ResourceVersion += "1"
		w.known[node.Name] = node
		return nil
	})
}
