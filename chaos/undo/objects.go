package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/clusters"
)

// AdminConf is kubeadm's kubeconfig of an administrator on every control-plane node.
const AdminConf = "/etc/kubernetes/admin.conf"

// outOfServiceTaint is k8s.io/api core/v1 TaintNodeOutOfService: the agent does not link the API's types.
const outOfServiceTaint = "node.kubernetes.io/out-of-service"

// NodeWas is the part of a deleted Node object that its kubelet does not restore when it registers again.
type NodeWas struct {
	Name        string            `json:"name"`
	UID         string            `json:"uid"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Taints      []Taint           `json:"taints,omitempty"`
	Cordoned    bool              `json:"cordoned,omitempty"` // By no fault.
}

// Taint is a Node's taint with all fields of the API.
type Taint struct {
	Key       string `json:"key"`
	Value     string `json:"value,omitempty"`
	Effect    string `json:"effect"`
	TimeAdded string `json:"timeAdded,omitempty"`
}

// RemoveMarks removes the owner's marks from the API objects of a resource, on a control-plane node: changes to Nodes
// are reverted, objects that the owner made are deleted.
func RemoveMarks(owner Owner, resource string) Action {
	action := askFor(owner, "marks")
	action.Argv, action.Tells = append(action.Argv, resource), true
	return action
}

// RestoreNode restores a Node that was deleted and has registered again, on a control-plane node.
func RestoreNode(was NodeWas) (Action, error) {
	action := ask("restore-node")
	text, err := json.Marshal(was)
	if err != nil {
		return action, fmt.Errorf("keep what Node %q has: %w", was.Name, err)
	}
	action.Stdin, action.Tells = string(text), true
	return action, nil
}

// API is what an undo needs of the API server. Its calls are bounded.
type API interface {
	// List returns the objects of a resource as a list in JSON, each with its kind; nothing if it is not served.
	List(ctx context.Context, resource string) ([]byte, error)
	// Delete deletes an object and does not wait for its end. It is no error if there is none.
	Delete(ctx context.Context, resource, namespace, name string) error
	// PatchNode changes a Node by a merge patch.
	PatchNode(ctx context.Context, name string, patch []byte) error
}

// Kubectl is the API server as kubectl reaches it on a control-plane node.
type Kubectl Runner

// run runs a command. Its cache does not survive a reboot.
func (k Kubectl) run(ctx context.Context, args ...string) (string, error) {
	return k(ctx, append([]string{
		"kubectl", "--kubeconfig=" + AdminConf, "--cache-dir=/run/seatrial/kubectl", "--request-timeout=5s",
	}, args...), "")
}

// List lists with kubectl get. That a resource of the API server's own is not served is no answer: one that has just
// started does not know its resources yet.
func (k Kubectl) List(ctx context.Context, resource string) ([]byte, error) {
	out, err := k.run(ctx, "get", resource, "--all-namespaces", "--output=json")
	custom := strings.Contains(resource, ".")
	if err != nil && custom && strings.Contains(err.Error(), "the server doesn't have a resource type") {
		return []byte("{}"), nil
	}
	return []byte(out), err
}

// Delete deletes with kubectl delete.
func (k Kubectl) Delete(ctx context.Context, resource, namespace, name string) error {
	_, err := k.run(ctx, "delete", resource, name, "--namespace="+namespace, "--ignore-not-found", "--wait=false")
	return err
}

// PatchNode patches with kubectl patch.
func (k Kubectl) PatchNode(ctx context.Context, name string, patch []byte) error {
	_, err := k.run(ctx, "patch", "node", name, "--type=merge", "--patch="+string(patch))
	return err
}

// object is what an undo needs of an API object.
type object struct {
	Kind     string   `json:"kind"`
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Taints        []Taint `json:"taints"`
		Unschedulable bool    `json:"unschedulable"`
	} `json:"spec"`
}

type metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	ResourceVersion   string            `json:"resourceVersion"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	Finalizers        []string          `json:"finalizers"`
	DeletionTimestamp string            `json:"deletionTimestamp"`
}

// String names the object as kubectl does.
func (o object) String() string {
	name := o.Metadata.Name
	if o.Metadata.Namespace != "" {
		name = o.Metadata.Namespace + "/" + name
	}
	return strings.ToLower(o.Kind) + " " + name
}

// listObjects lists all objects of a resource, none if the API server does not serve it.
func listObjects(ctx context.Context, api API, resource string) ([]object, error) {
	out, err := api.List(ctx, resource)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource, err)
	}
	var list struct {
		Items []object `json:"items"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("list %s: decode answer %.80q: %w", resource, out, err)
	}
	return list.Items, nil
}

// Unmark reverts the changes behind the selected owners' marks on objects of a resource, and returns what it did. It is
// an error if an object's deletion is stuck, since its effect goes on.
func Unmark(ctx context.Context, api API, only Only, resource string) (did []string, err error) {
	objects, err := listObjects(ctx, api, resource)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, o := range objects {
		change, said := o.unmark(api, only, resource)
		switch {
		case said == "":
			continue
		case o.Metadata.DeletionTimestamp != "":
			errs = append(errs, fmt.Errorf("%s is being deleted since %s: it is held by finalizers %q", o,
				o.Metadata.DeletionTimestamp, o.Metadata.Finalizers))
			continue
		}
		if err := change(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", o, said, err))
			continue
		}
		did = append(did, fmt.Sprintf("%s %s", o, said))
		if o.Metadata.Labels[OwnerLabel] != "" {
			errs = append(errs, fmt.Errorf("%s was deleted a moment ago: whether it goes is not known", o))
		}
	}
	return did, errors.Join(errs...)
}

// unmark returns what reverts the changes behind the owners' marks, and its description with their names; or nothing
// without a mark.
func (o object) unmark(api API, only Only, resource string) (change func(context.Context) error, does string) {
	ours := func(name string) bool {
		owner, is := FromName(name)
		return is && owner.In(only)
	}
	made := o.Metadata.Labels[OwnerLabel]
	if o.Kind == "ResourceQuota" && o.Metadata.Labels[clusters.ManagedByLabel] == clusters.ManagedBy {
		made = o.Metadata.Name
	}
	if ours(made) {
		return func(ctx context.Context) error {
			return api.Delete(ctx, resource, o.Metadata.Namespace, o.Metadata.Name)
		}, fmt.Sprintf("deleted (%s)", made)
	}
	annotations, spec := map[string]any{}, map[string]any{}
	var did []string
	if name := o.Metadata.Annotations[Cordon]; ours(name) {
		annotations[Cordon], spec["unschedulable"] = nil, nil
		did = append(did, fmt.Sprintf("uncordoned (%s)", name))
	}
	if name := o.Metadata.Annotations[OutOfService]; ours(name) {
		annotations[OutOfService] = nil
		spec["taints"] = slices.DeleteFunc(slices.Clone(o.Spec.Taints),
			func(t Taint) bool { return t.Key == outOfServiceTaint })
		did = append(did, fmt.Sprintf("taken back into service (%s)", name))
	}
	if len(did) == 0 || o.Kind != "Node" {
		return nil, ""
	}
	return func(ctx context.Context) error {
		return o.patch(ctx, api, map[string]any{"annotations": annotations}, spec)
	}, strings.Join(did, " and ")
}

// patch changes a Node unless it was changed since it was read.
func (o object) patch(ctx context.Context, api API, meta, spec map[string]any) error {
	meta["resourceVersion"] = o.Metadata.ResourceVersion
	whole := map[string]any{"metadata": meta}
	if len(spec) > 0 {
		whole["spec"] = spec
	}
	text, _ := json.Marshal(whole) // Maps of strings and taints: it cannot fail.
	return api.PatchNode(ctx, o.Metadata.Name, text)
}

// Restore restores a deleted Node once it is registered again, and returns what it did. A Node with the old UID was not
// deleted and is left alone.
func (w NodeWas) Restore(ctx context.Context, api API) (did string, err error) {
	objects, err := listObjects(ctx, api, "nodes")
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(objects, func(o object) bool { return o.Kind == "Node" && o.Metadata.Name == w.Name })
	if i < 0 {
		return "", fmt.Errorf("node %s is not registered", w.Name)
	}
	if objects[i].Metadata.UID == w.UID {
		return "", nil
	}
	meta, spec := w.lacks(objects[i])
	if len(meta) > 0 || len(spec) > 0 {
		if err := objects[i].patch(ctx, api, meta, spec); err != nil {
			return "", fmt.Errorf("give node %s what it had: %w", w.Name, err)
		}
	}
	return fmt.Sprintf("node %s was registered again and has what it had", w.Name), nil
}

// lacks returns what a Node lacks, as parts of a patch.
func (w NodeWas) lacks(now object) (meta, spec map[string]any) {
	meta, spec = map[string]any{}, map[string]any{}
	for _, f := range []struct {
		name     string
		has, had map[string]string
	}{{"labels", now.Metadata.Labels, w.Labels}, {"annotations", now.Metadata.Annotations, w.Annotations}} {
		back := map[string]any{}
		for _, key := range Missing(f.has, f.had) {
			back[key] = f.had[key]
		}
		if len(back) > 0 {
			meta[f.name] = back
		}
	}
	taints := slices.Clone(now.Spec.Taints)
	for _, t := range w.Taints {
		same := func(n Taint) bool { return n.Key == t.Key && n.Effect == t.Effect }
		if Returns(t.Key) && !slices.ContainsFunc(taints, same) {
			taints = append(taints, t)
		}
	}
	if len(taints) > len(now.Spec.Taints) {
		spec["taints"] = taints
	}
	if w.Cordoned && !now.Spec.Unschedulable {
		spec["unschedulable"] = true
	}
	return meta, spec
}

// Missing returns the sorted keys of before that are not in now, without those that others restore: marks of faults,
// and the kubelet's annotation of registered CSI drivers.
func Missing(now, before map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(before)), func(key string) bool {
		_, has := now[key]
		return has || strings.HasPrefix(key, APIPrefix) || key == "csi.volume.kubernetes.io/nodeid"
	})
}

// Returns reports whether a taint is restored on a Node that registered again. The control plane sets the others by the
// state of the node.
func Returns(taint string) bool { return !strings.HasPrefix(taint, "node.kubernetes.io/") }
