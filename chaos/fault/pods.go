package fault

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// PodsOn returns the pods on the victim that have not ended, sorted by namespace and name.
func (e Env) PodsOn(ctx context.Context) ([]corev1.Pod, error) {
	name := e.Node.Name()
	list, err := e.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String()})
	if err != nil {
		return nil, fmt.Errorf("list pods on node %q: %w", name, err)
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Spec.NodeName != name || Ended(p)
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(fullName(a), fullName(b)) })
	return pods, nil
}

// Evictable returns the pods on the victim that kubectl drain would evict, sorted by namespace and name.
func (e Env) Evictable(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := e.PodsOn(ctx)
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		_, static := p.Annotations[corev1.MirrorPodAnnotationKey]
		owner := metav1.GetControllerOfNoCopy(&p)
		return static || owner != nil && owner.Kind == "DaemonSet"
	}), err
}

// Ended reports whether a pod has run to its end, as one of a Job, or one that was evicted.
func Ended(p corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func fullName(p corev1.Pod) string { return p.Namespace + "/" + p.Name }

// Ready reports whether a pod is Ready.
func Ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Workload returns the processes of the pods that belong to the workload, and those with the given pids. Without any to
// look for, the result is empty.
func (e Env) Workload(ctx context.Context, pods []corev1.Pod, pids ...int) (probe.Processes, error) {
	q := probe.Query{PIDs: pids}
	for _, p := range pods {
		if p.Namespace == e.Namespace {
			q.PodUIDs = append(q.PodUIDs, string(p.UID))
		}
	}
	if len(q.PodUIDs) == 0 && len(q.PIDs) == 0 {
		return probe.Processes{}, nil
	}
	return nodeagent.On(e.Node).Processes(ctx, q)
}

// PodsBack waits until each pod that was on the victim is Ready; with restarted also until none shows a container from
// before, which the API server does until the kubelet's next sync. It names the pods that are gone. The victim's pod
// must not be gone, unless it was already being deleted. A pod of others that was not Ready before need not be.
func (e Env) PodsBack(before *[]corev1.Pod, restarted bool, bound time.Duration) Show {
	how := "Ready"
	if restarted {
		how = "Ready with new containers"
	}
	what := fmt.Sprintf("pods of node %q to be %s", e.Node.Name(), how)
	return Await(what, askEvery, bound, Judged(e, e.PodsOn, func(pods []corev1.Pod) (string, error) {
		var back, gone, missing []string
		for _, old := range *before {
			name := fullName(old)
			i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return fullName(p) == name })
			if old.Namespace != e.Namespace && !Ready(&old) {
				continue
			}
			switch victim := name == e.Namespace+"/"+e.Pod && old.DeletionTimestamp == nil; {
			case i < 0 && victim:
				missing = append(missing, name+" is gone")
			case i < 0:
				gone = append(gone, name)
			case !Ready(&pods[i]):
				missing = append(missing, name+" is not Ready")
			case restarted && sharesContainer(old, pods[i]):
				missing = append(missing, name+" is shown with a container of before")
			default:
				back = append(back, name)
			}
		}
		if len(missing) > 0 {
			return "", NotYet("%s", strings.Join(missing, "; "))
		}
		sentence := fmt.Sprintf("%d pods are %s: %s", len(back), how, strings.Join(back, ", "))
		if len(gone) > 0 {
			sentence += "; gone from the node: " + strings.Join(gone, ", ")
		}
		return sentence, nil
	}))
}

// sharesContainer reports whether a container that ran before is shown as running now.
func sharesContainer(old, now corev1.Pod) bool {
	running := func(p corev1.Pod, id string) bool {
		return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.State.Running != nil && c.ContainerID == id
		})
	}
	return slices.ContainsFunc(old.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil && c.ContainerID != "" && running(now, c.ContainerID)
	})
}

// VolumeHandle returns the CSI volume handle of the victim's claim. It works without the pod: the StatefulSet
// controller names a claim <template>-<pod>.
func (e Env) VolumeHandle(ctx context.Context) (string, error) {
	claims, err := e.Kube.CoreV1().PersistentVolumeClaims(e.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list claims of namespace %q: %w", e.Namespace, err)
	}
	seen := "it has no claim"
	for _, claim := range claims.Items {
		if !strings.HasSuffix(claim.Name, "-"+e.Pod) {
			continue
		}
		if claim.Spec.VolumeName == "" {
			seen = fmt.Sprintf("its claim %q is %s", claim.Name, claim.Status.Phase)
			continue
		}
		pv, err := e.Kube.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("get PersistentVolume %q: %w", claim.Spec.VolumeName, err)
		}
		switch {
		case pv.Spec.CSI != nil:
			return pv.Spec.CSI.VolumeHandle, nil
		case pv.Spec.FlexVolume != nil: // To its driver it is the name of its PersistentVolume.
			return pv.Name, nil
		}
		seen = fmt.Sprintf("PersistentVolume %q has no CSI driver", pv.Name)
	}
	return "", fmt.Errorf("find the volume of pod %q: %s", e.Pod, seen)
}

// Volume is a volume of one of the workload's pods.
type Volume struct {
	Pod string
	PV  string // Name of the PersistentVolume.
}

// Volumes returns the volumes of the workload's pods on the victim that have not ended, sorted by pod.
func (e Env) Volumes(ctx context.Context) ([]Volume, error) {
	pods, err := e.PodsOn(ctx)
	if err != nil {
		return nil, err
	}
	claims, err := e.Kube.CoreV1().PersistentVolumeClaims(e.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list claims of namespace %q: %w", e.Namespace, err)
	}
	bound := map[string]string{}
	for _, c := range claims.Items {
		bound[c.Name] = c.Spec.VolumeName
	}
	var volumes []Volume
	for _, p := range pods {
		if p.Namespace != e.Namespace {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			pv := bound[v.PersistentVolumeClaim.ClaimName]
			if pv == "" {
				return nil, fmt.Errorf("find the volumes of pod %q: its claim %q is bound to none", p.Name,
					v.PersistentVolumeClaim.ClaimName)
			}
			volumes = append(volumes, Volume{Pod: p.Name, PV: pv})
		}
	}
	slices.SortFunc(volumes, func(a, b Volume) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PV, b.PV))
	})
	return volumes, nil
}
