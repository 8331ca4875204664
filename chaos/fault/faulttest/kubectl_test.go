package faulttest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// clients is what reaches the objects on other ways than the harness's client: kubectl on a node, and what the tracker
// of the fake clientset keeps.
type clients struct {
	tracker  k8stesting.ObjectTracker
	refusals int // So many evictions a budget refuses.
	apiDown  bool
	claims   int // How many were made.
}

const claimName = "data-mysql-1"

var (
	quotas    = schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
	claimsGVR = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
)

// objectFaults lets the API server do what the faults of objects ask of it.
func (w *world) objectFaults(kube *kubefake.Clientset) {
	w.tracker = kube.Tracker()
	w.renewClaim()
	kube.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		return w.evict(a.(k8stesting.CreateAction).GetObject().(*policyv1.Eviction))
	})
	kube.PrependReactor("delete", "persistentvolumeclaims", w.deleteClaim)
}

func (w *world) evict(e *policyv1.Eviction) (bool, runtime.Object, error) {
	resource := corev1.Resource("pods")
	argv := []string{"evict", "pod", e.Namespace + "/" + e.Name, "--uid=" + string(*e.DeleteOptions.Preconditions.UID)}
	return true, nil, w.write(argv, "", func() error {
		switch {
		case w.pod == nil:
			return apierrors.NewNotFound(resource, e.Name)
		case w.pod.UID != *e.DeleteOptions.Preconditions.UID:
			return stale(resource, e.Name)
		case w.refusals > 0:
			w.refusals--
			return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
		}
		w.terminate(podGrace)
		return nil
	})
}

// renewClaim makes the claim of the pod anew, as when both were deleted.
func (w *world) renewClaim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims++
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "trial", Name: claimName, UID: types.UID(fmt.Sprintf("claim-%d", w.claims)),
			Finalizers: []string{"kubernetes.io/pvc-protection"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"},
	}
	_ = w.tracker.Delete(claimsGVR, "trial", claimName)
	if err := w.tracker.Create(claimsGVR, claim, "trial"); err != nil {
		panic(err)
	}
}

// deleteClaim marks the claim as being deleted: the pod uses it.
func (w *world) deleteClaim(a k8stesting.Action) (bool, runtime.Object, error) {
	act := a.(k8stesting.DeleteActionImpl)
	argv := []string{"delete", "persistentvolumeclaim", act.Namespace + "/" + act.Name,
		"--uid=" + string(*act.DeleteOptions.Preconditions.UID)}
	return true, nil, w.write(argv, "", func() error {
		obj, err := w.tracker.Get(claimsGVR, act.Namespace, act.Name)
		if err != nil {
			return err
		}
		claim := obj.DeepCopyObject().(*corev1.PersistentVolumeClaim)
		now := metav1.Now()
		claim.DeletionTimestamp = &now
		return w.tracker.Update(claimsGVR, claim, act.Namespace)
	})
}

// kubectl carries out a command of kubectl, if it is one. The lock is held.
func (w *world) kubectl(m *machine, argv []string) (out string, exit int, known bool) {
	ours := m.node.Role() == clusters.RoleControlPlane
	switch {
	case argv[0] != "kubectl":
		return "", 0, false
	case !ours || w.apiDown || len(argv) < 6 || argv[1] != "--kubeconfig="+undo.AdminConf:
		return "", 1, true
	}
	w.control()
	switch args := argv[4:]; args[0] {
	case "get":
		if args[1] == "stresschaos.chaos-mesh.org" {
			w.stresses()
			return encode(map[string]any{"kind": "List", "items": w.meshItems()}), 0, true
		}
		return w.listAll(args[1]), 0, true
	case "delete":
		if args[1] == "stresschaos.chaos-mesh.org" {
			w.endMesh(args[2])
			return "", 0, true
		}
		namespace := strings.TrimPrefix(args[3], "--namespace=")
		_ = w.tracker.Delete(quotas, namespace, args[2]) // One that is gone is no error.
		return "", 0, true
	case "patch":
		if args[1] == "node" && w.patchNode(args[2], strings.TrimPrefix(args[4], "--patch=")) {
			return "", 0, true
		}
	}
	return "", 1, true
}

// listAll is the answer to kubectl get.
func (w *world) listAll(resource string) string {
	items := []any{}
	if resource == "nodes" {
		for _, name := range slices.Sorted(maps.Keys(w.known)) {
			n := w.known[name].DeepCopy()
			n.Kind = "Node"
			items = append(items, n)
		}
		return encode(map[string]any{"kind": "List", "items": items})
	}
	list, err := w.tracker.List(quotas, schema.GroupVersionKind{Version: "v1", Kind: "ResourceQuota"}, "")
	if err != nil {
		panic(err)
	}
	for _, q := range list.(*corev1.ResourceQuotaList).Items {
		q.Kind = "ResourceQuota"
		items = append(items, q)
	}
	return encode(map[string]any{"kind": "List", "items": items})
}

// patchNode applies a merge patch on condition of the resourceVersion.
func (w *world) patchNode(name, patch string) bool {
	now := w.known[name]
	if now == nil {
		return false
	}
	var with, node map[string]any
	if json.Unmarshal([]byte(patch), &with) != nil || json.Unmarshal([]byte(encode(now)), &node) != nil {
		return false
	}
	version := with["metadata"].(map[string]any)["resourceVersion"]
	if w.busy > 0 || version != now.ResourceVersion {
		w.busy--
		return false
	}
	var changed corev1.Node
	if json.Unmarshal([]byte(encode(merge(node, with))), &changed) != nil {
		return false
	}
	changed.ResourceVersion += "1"
	w.known[name] = &changed
	return true
}

// merge is RFC 7396.
func merge(into, patch map[string]any) map[string]any {
	for key, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(into, key)
		case map[string]any:
			inner, _ := into[key].(map[string]any)
			if inner == nil {
				inner = map[string]any{}
			}
			into[key] = merge(inner, v)
		default:
			into[key] = v
		}
	}
	return into
}
