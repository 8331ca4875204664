package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
)

// AdminConf is where kubeadm leaves, on every node of the control plane, a kubeconfig that may do everything.
const AdminConf = "/etc/kubernetes/admin.conf"

// apiBound is how long the harness waits for an API server that does not answer, or for a Node to be registered.
const apiBound = 45 * time.Second

// outOfServiceTaint is k8s.io/api core/v1 TaintNodeOutOfService.
const outOfServiceTaint = "node.kubernetes.io/out-of-service"

// NodeWas is what a Node object had that was deleted: what its kubelet does not bring back when it registers anew.
type NodeWas struct {
	Name        string            `json:"name"`
	UID         string            `json:"uid"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Taints      []Taint           `json:"taints,omitempty"`
}

// Taint is a Node's, with all fields that the API has.
type Taint struct {
	Key       string `json:"key"`
	Value     string `json:"value,omitempty"`
	Effect    string `json:"effect"`
	TimeAdded string `json:"timeAdded,omitempty"`
}

// API undoes what faults have left of API objects, through kubectl on a node of the control plane. On any other node it
// does nothing. It tries again, for at most bound, while the API server does not answer, while somebody else changes
// the same objects, and while a deleted Node is not registered.
func API(ctx context.Context, run Runner, only Only, bound time.Duration, report *Report) error {
	out, err := run(ctx, []string{"find", "/etc", "-maxdepth", "2", "-path", AdminConf}, "")
	if err != nil {
		return fmt.Errorf("look for %s: %w", AdminConf, err)
	}
	if strings.TrimSpace(out) != AdminConf {
		return nil
	}
	only = orAll(only)
	err = await.Until(ctx, "API server to have no mark of ours left", time.Second, bound,
		func(ctx context.Context) (bool, string, error) { return undo(ctx, run, only, report) })
	if err != nil {
		return err
	}
	return await.Until(ctx, "API server to have no experiment of ours left", time.Second, bound,
		func(ctx context.Context) (bool, string, error) { return undoExperiments(ctx, run, only, report) })
}

// undo looks once, and undoes what it finds. A state that is not empty says what is waited for.
func undo(ctx context.Context, run Runner, only Only, report *Report) (done bool, state string, err error) {
	objects, err := listObjects(ctx, run, marked())
	if err != nil {
		return false, "", err
	}
	kept, err := keptNodes(ctx, run, only)
	if err != nil {
		return false, "", err
	}
	var changes []change
	for _, o := range objects {
		if c, ok := o.undone(only); ok {
			changes = append(changes, c)
		}
	}
	for _, k := range kept {
		c, missing := k.back(objects)
		if missing != "" {
			state = missing
			continue
		}
		changes = append(changes, c)
	}
	err = carryOut(ctx, run, changes, report)
	return err == nil && state == "", state, err
}

// carryOut carries changes out, all that can be, and reports those.
func carryOut(ctx context.Context, run Runner, changes []change, report *Report) error {
	var errs []error
	for _, c := range changes {
		if err := c.carryOut(ctx, run); err != nil {
			errs = append(errs, err)
			continue
		}
		report.API = append(report.API, c.did)
	}
	return errors.Join(errs...)
}

// kubectl is the beginning of every command. Its cache is where a reboot takes it away.
func kubectl(args ...string) []string {
	return append([]string{
		"kubectl", "--kubeconfig=" + AdminConf, "--cache-dir=/run/seatrial/kubectl", "--request-timeout=5s",
	}, args...)
}

// object is as much of an API object as a heal has to know.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		UID               string            `json:"uid"`
		ResourceVersion   string            `json:"resourceVersion"`
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
		Finalizers        []string          `json:"finalizers"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Taints []Taint `json:"taints"`
	} `json:"spec"`
}

// marked are the kinds of Kubernetes' own that faults leave marks on.
func marked() []string {
	return []string{
		"nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "resourcequotas", "statefulsets.apps",
	}
}

// listObjects lists all objects of some kinds.
func listObjects(ctx context.Context, run Runner, kinds []string, flags ...string) ([]object, error) {
	args := append([]string{"get", strings.Join(kinds, ","), "--all-namespaces", "--output=json"}, flags...)
	out, err := run(ctx, kubectl(args...), "")
	if err != nil {
		return nil, fmt.Errorf("list API objects: %w", err)
	}
	var list struct {
		Items []object `json:"items"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("list API objects: decode answer %.80q: %w", out, err)
	}
	return list.Items, nil
}

// String names the object as kubectl does.
func (o object) String() string {
	name := o.Metadata.Name
	if o.Metadata.Namespace != "" {
		name = o.Metadata.Namespace + "/" + name
	}
	return strings.ToLower(o.Kind) + " " + name
}

// change is something to be done to an API object, or to the mark of one.
type change struct {
	argv [][]string
	did  string
	err  error // Why it could not be written down.
}

func (c change) carryOut(ctx context.Context, run Runner) error {
	if c.err != nil {
		return fmt.Errorf("%s: %w", c.did, c.err)
	}
	for _, argv := range c.argv {
		if _, err := run(ctx, argv, ""); err != nil {
			return fmt.Errorf("%s: %w", c.did, err)
		}
	}
	return nil
}

// undone is the change after which the object bears no mark of ours, if it bears one.
func (o object) undone(only Only) (change, bool) {
	ours := func(name string) (string, bool) {
		owner, ok := FromName(name)
		return owner.Name(), ok && only(owner)
	}
	var did []string
	annotations, spec, meta := map[string]any{}, map[string]any{}, map[string]any{}
	if o.Kind == "ResourceQuota" {
		if owner, ok := ours(o.Metadata.Name); ok {
			return o.deleted("resourcequota", owner), true
		}
	}
	if owner, ok := ours(o.Metadata.Annotations[Cordon]); ok && o.Kind == "Node" {
		annotations[Cordon], spec["unschedulable"] = nil, nil
		did = append(did, fmt.Sprintf("uncordoned (%s)", owner))
	}
	if owner, ok := ours(o.Metadata.Annotations[OutOfService]); ok && o.Kind == "Node" {
		annotations[OutOfService] = nil
		spec["taints"] = slices.DeleteFunc(slices.Clone(o.Spec.Taints),
			func(t Taint) bool { return t.Key == outOfServiceTaint })
		did = append(did, fmt.Sprintf("taken back into service (%s)", owner))
	}
	kept := slices.DeleteFunc(slices.Clone(o.Metadata.Finalizers), func(f string) bool {
		owner, ok := FromFinalizer(f)
		return ok && only(owner)
	})
	if len(kept) < len(o.Metadata.Finalizers) {
		meta["finalizers"] = kept
		did = append(did, "finalizer removed")
	}
	if len(did) == 0 {
		return change{}, false
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	return o.patch(meta, spec, strings.Join(did, " and ")), true
}

// deleted is the change after which the object is gone, or on its way.
func (o object) deleted(resource, owner string) change {
	return change{did: fmt.Sprintf("%s deleted (%s)", o, owner), argv: [][]string{kubectl("delete", resource,
		o.Metadata.Name, "--namespace="+o.Metadata.Namespace, "--ignore-not-found", "--wait=false")}}
}

// patch is a change on condition that nobody else has changed the object since it was read.
func (o object) patch(meta, spec map[string]any, did string) change {
	meta["resourceVersion"] = o.Metadata.ResourceVersion
	whole := map[string]any{"metadata": meta}
	if len(spec) > 0 {
		whole["spec"] = spec
	}
	text, err := json.Marshal(whole)
	argv := kubectl("patch", strings.ToLower(o.Kind), o.Metadata.Name, "--type=merge", "--patch="+string(text))
	if o.Metadata.Namespace != "" {
		argv = append(argv, "--namespace="+o.Metadata.Namespace)
	}
	return change{argv: [][]string{argv}, did: fmt.Sprintf("%s %s", o, did), err: err}
}

// keptNode is what a fault keeps of a Node object that it deleted, or meant to.
type keptNode struct {
	owner Owner
	was   NodeWas // Without a name where it was not written to the end: then nothing was deleted yet.
}

// keptNodes reads what is kept of deleted Nodes on a node of the control plane.
func keptNodes(ctx context.Context, run Runner, only Only) ([]keptNode, error) {
	all, err := listHeld(ctx, run)
	if err != nil {
		return nil, err
	}
	var kept []keptNode
	for _, h := range all {
		if !only(h.owner) || !slices.Contains(h.things, HeldNode) {
			continue
		}
		k := keptNode{owner: h.owner}
		text, err := run(ctx, []string{"cat", h.owner.Held(HeldNode)}, "")
		if err != nil {
			still, again := holdsStill(ctx, run, h.owner, HeldNode)
			if again == nil && !still {
				continue // Another heal was quicker.
			}
			return nil, errors.Join(fmt.Errorf("read what %s keeps of a Node: %w", h.owner.Name(), err), again)
		}
		if json.Unmarshal([]byte(text), &k.was) != nil {
			k.was = NodeWas{}
		}
		kept = append(kept, k)
	}
	return kept, nil
}

// back is the change after which the Node has what it had, and the mark is gone. While there is no Node, missing says
// so.
func (k keptNode) back(objects []object) (c change, missing string) {
	released := []string{"rm", "-rf", k.owner.Held("")}
	if k.was.Name == "" {
		return change{argv: [][]string{released}, did: fmt.Sprintf("no node was deleted (%s)", k.owner.Name())}, ""
	}
	said := fmt.Sprintf("node %s was not deleted (%s)", k.was.Name, k.owner.Name())
	i := slices.IndexFunc(objects, func(o object) bool { return o.Kind == "Node" && o.Metadata.Name == k.was.Name })
	if i < 0 {
		return change{}, fmt.Sprintf("node %s is not registered", k.was.Name)
	}
	now := objects[i]
	if now.Metadata.UID == k.was.UID {
		return change{argv: [][]string{released}, did: said}, ""
	}
	meta, spec := k.was.lacks(now)
	c = now.patch(meta, spec, fmt.Sprintf("was registered anew, and has what it had (%s)", k.owner.Name()))
	if len(meta) == 1 && len(spec) == 0 { // The version alone.
		c.argv = nil
	}
	c.argv = append(c.argv, released)
	return c, ""
}

// lacks returns what has to be given back to a Node.
func (w NodeWas) lacks(now object) (meta, spec map[string]any) {
	meta, spec = map[string]any{}, map[string]any{}
	for _, f := range []struct {
		name     string
		has, had map[string]string
	}{
		{"labels", now.Metadata.Labels, w.Labels}, {"annotations", now.Metadata.Annotations, w.Annotations},
	} {
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

// Missing returns the keys of before that now does not have, in order, but those that others are to bring back: marks
// of faults, and what the kubelet says of CSI drivers when they register with it.
func Missing(now, before map[string]string) []string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(before)) {
		_, has := now[key]
		if !has && !strings.HasPrefix(key, APIPrefix) && key != "csi.volume.kubernetes.io/nodeid" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Returns reports whether a taint is to be given back to a Node that was registered anew. Others are the control
// plane's, which goes by the state of the node; or of another fault, which is over.
func Returns(taint string) bool { return !strings.HasPrefix(taint, "node.kubernetes.io/") }
