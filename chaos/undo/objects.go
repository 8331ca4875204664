package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// kubectl returns the argv of a command. Its cache does not survive a reboot.
func kubectl(args ...string) []string {
	return append([]string{
		"kubectl", "--kubeconfig=" + AdminConf, "--cache-dir=/run/seatrial/kubectl", "--request-timeout=5s",
	}, args...)
}

// object is what an undo needs of an API object.
type object struct {
	Kind     string   `json:"kind"`
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Taints []Taint `json:"taints"`
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

// listObjects lists all objects of a resource, none if the API server does not serve it. That it does not serve one of
// its own is no answer: an API server that has just started does not know its resources yet.
func listObjects(ctx context.Context, run Runner, resource string) ([]object, error) {
	out, err := run(ctx, kubectl("get", resource, "--all-namespaces", "--output=json"), "")
	custom := strings.Contains(resource, ".")
	if err != nil && custom && strings.Contains(err.Error(), "the server doesn't have a resource type") {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource, err)
	}
	var list struct {
		Items []object `json:"items"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("list %s: decode answer %.80q: %w", resource, out, err)
	}
	return list.Items, nil
}

// Unmark reverts, through kubectl, the changes behind the owner's marks on objects of a resource, and returns what it
// did. It is an error if an object's deletion is stuck, since its effect goes on.
func Unmark(ctx context.Context, run Runner, owner Owner, resource string) (did []string, err error) {
	objects, err := listObjects(ctx, run, resource)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, o := range objects {
		argv, said := o.unmark(owner, resource)
		switch {
		case said == "":
			continue
		case o.Metadata.DeletionTimestamp != "":
			errs = append(errs, fmt.Errorf("%s is being deleted since %s: it is held by finalizers %q", o,
				o.Metadata.DeletionTimestamp, o.Metadata.Finalizers))
			continue
		}
		if _, err := run(ctx, argv, ""); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", o, said, err))
			continue
		}
		did = append(did, fmt.Sprintf("%s %s (%s)", o, said, owner.Name()))
		if o.Metadata.Labels[OwnerLabel] != "" {
			errs = append(errs, fmt.Errorf("%s was deleted a moment ago: whether it goes is not known", o))
		}
	}
	return did, errors.Join(errs...)
}

// unmark returns the command that reverts the change behind the owner's mark and its description, or nothing without a
// mark.
func (o object) unmark(owner Owner, resource string) (argv []string, does string) {
	mine := func(name string) bool { return name == owner.Name() }
	if o.Kind == "ResourceQuota" && mine(o.Metadata.Name) || mine(o.Metadata.Labels[OwnerLabel]) {
		return kubectl("delete", resource, o.Metadata.Name, "--namespace="+o.Metadata.Namespace,
			"--ignore-not-found", "--wait=false"), "deleted"
	}
	annotations, spec := map[string]any{}, map[string]any{}
	var did []string
	if mine(o.Metadata.Annotations[Cordon]) {
		annotations[Cordon], spec["unschedulable"] = nil, nil
		did = append(did, "uncordoned")
	}
	if mine(o.Metadata.Annotations[OutOfService]) {
		annotations[OutOfService] = nil
		spec["taints"] = slices.DeleteFunc(slices.Clone(o.Spec.Taints),
			func(t Taint) bool { return t.Key == outOfServiceTaint })
		did = append(did, "taken back into service")
	}
	if len(did) == 0 || o.Kind != "Node" {
		return nil, ""
	}
	return o.patch(map[string]any{"annotations": annotations}, spec), strings.Join(did, " and ")
}

// patch changes a Node unless it was changed since it was read.
func (o object) patch(meta, spec map[string]any) []string {
	meta["resourceVersion"] = o.Metadata.ResourceVersion
	whole := map[string]any{"metadata": meta}
	if len(spec) > 0 {
		whole["spec"] = spec
	}
	text, _ := json.Marshal(whole) // Maps of strings and taints: it cannot fail.
	return kubectl("patch", "node", o.Metadata.Name, "--type=merge", "--patch="+string(text))
}

// Restore restores a deleted Node once it is registered again, and returns what it did. A Node with the old UID was not
// deleted and is left alone.
func (w NodeWas) Restore(ctx context.Context, run Runner) (did string, err error) {
	objects, err := listObjects(ctx, run, "nodes")
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
		if _, err := run(ctx, objects[i].patch(meta, spec), ""); err != nil {
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
		if Returns(t.Key) && !slices.ContainsFunc(taints, func(n Taint) bool { return n.Key == t.Key }) {
			taints = append(taints, t)
		}
	}
	if len(taints) > len(now.Spec.Taints) {
		spec["taints"] = taints
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
