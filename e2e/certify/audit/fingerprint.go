package audit

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fingerprint says what a cluster is, in sorted lines, so that two of them can be compared: versions, feature gates,
// nodes, drivers, classes, StatefulSets and budgets. What changes in normal operation is not in it: pods, volumes,
// claims, replicas, conditions. A part that could not be read is an error.
func Fingerprint(c Cluster) ([]string, error) {
	for _, part := range []Part{Budgets, Classes, Drivers, Metrics, Nodes, StatefulSets} {
		if why, ok := c.lacks(part); ok {
			return nil, fmt.Errorf("no fingerprint without %s: %s", part, why)
		}
	}
	lines := []string{"API server " + c.Version}
	var wrong []error
	add := func(what string, spec any) {
		text, err := json.Marshal(spec) // Sorts the keys of maps.
		wrong = append(wrong, err)
		// Short enough for a line, and long enough that two specs never have the same by chance.
		lines = append(lines, fmt.Sprintf("%s sha256:%.16x", what, sha256.Sum256(text)))
	}
	add("feature gates", c.Gates)
	for _, n := range c.Nodes {
		info := n.Status.NodeInfo
		lines = append(lines, fmt.Sprintf("node %s, %s, kernel %s, %s, %s, %s, cpu %s, memory %s", n.Name, n.UID,
			info.KernelVersion, info.OSImage, info.ContainerRuntimeVersion, "kubelet "+info.KubeletVersion,
			n.Status.Capacity.Cpu(), n.Status.Capacity.Memory()))
	}
	for _, d := range c.Drivers {
		add(object("CSI driver", &d).String(), d.Spec)
	}
	for _, class := range c.Classes {
		class.ObjectMeta = metav1.ObjectMeta{Name: class.Name}
		add(object("storage class", &class).String(), class)
	}
	for _, set := range c.StatefulSets {
		set.Spec.Replicas = nil
		add(object("StatefulSet", &set).String(), set.Spec)
	}
	for _, b := range c.Budgets {
		add(object("PodDisruptionBudget", &b).String(), b.Spec)
	}
	slices.Sort(lines)
	return lines, errors.Join(wrong...)
}

// Without returns the cluster without the drivers, classes, StatefulSets and budgets that bear a label.
func (c Cluster) Without(label string) Cluster {
	c.Drivers, c.Classes = without(c.Drivers, label), without(c.Classes, label)
	c.StatefulSets, c.Budgets = without(c.StatefulSets, label), without(c.Budgets, label)
	return c
}

func without[T any, O interface {
	*T
	metav1.Object
}](all []T, label string) []T {
	var kept []T
	for _, o := range all {
		if _, has := O(&o).GetLabels()[label]; !has {
			kept = append(kept, o)
		}
	}
	return kept
}

// Inventory lists the objects that a trial could leave behind or take away: a line for each, sorted.
func Inventory(c Cluster) []string {
	var lines []string
	add := func(kind string, o metav1.Object) { lines = append(lines, object(kind, o).String()) }
	for _, a := range c.Attachments {
		add("VolumeAttachment", &a)
	}
	for _, o := range c.Claims {
		add("PersistentVolumeClaim", &o)
	}
	for _, o := range c.Volumes {
		add("PersistentVolume", &o)
	}
	for _, p := range c.Pods {
		if metav1.GetControllerOfNoCopy(&p) == nil { // The others come and go with their controllers.
			add("Pod", &p)
		}
	}
	for _, n := range c.Nodes {
		if n.Spec.Unschedulable {
			lines = append(lines, "cordon of Node "+n.Name)
		}
		for _, t := range n.Spec.Taints {
			lines = append(lines, fmt.Sprintf("taint %s of Node %s", t.ToString(), n.Name))
		}
	}
	slices.Sort(lines)
	return lines
}

// Difference returns the lines that are in only one of two sorted lists, those of the first as gone.
func Difference(before, after []string) []string {
	var out []string
	for _, line := range before {
		if _, found := slices.BinarySearch(after, line); !found {
			out = append(out, "gone: "+line)
		}
	}
	for _, line := range after {
		if _, found := slices.BinarySearch(before, line); !found {
			out = append(out, "new: "+line)
		}
	}
	return out
}
