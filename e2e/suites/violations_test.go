package suites_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/trial"
	"github.com/seatrial/seatrial/fixtures"
)

// A check that has never seen a violation may be one that cannot. Each of these breaks a promise on a real cluster
// behind the trial's back, or holds a real history to a promise that nobody made. Two live databases of one ordinal are
// what the cases k8s-61832 and k8s-61832-node bring about, without anybody's help.
var _ = Describe("a promise that is broken on purpose", Serial, Label("set", "light", "statefulset", "violations"),
	func() {
		if !asked("set", "violations") {
			return
		}
		It("is found when a pod below the partition is made one of the new revision", SpecTimeout(8*time.Minute),
			func(ctx SpecContext) {
				out := meddled(ctx, "set-canary-light", relabelled)
				expectFinding(out, "set-partition", "Pod light-0 was made at revision", "it is below the partition of")
			})

		It("is found when a claim is taken from under its pod", SpecTimeout(8*time.Minute), func(ctx SpecContext) {
			out := meddled(ctx, "set-scale-light", unclaimed)
			expectFinding(out, "set-claims", "Claim data-light-0 was deleted at",
				"although its pod's ordinal is wanted")
			expectFinding(out, "set-claims", "Claim data-light-0 was gone at", "although pod light-0")
		})

		It("is found when a second pod with the identity of one is made by hand", SpecTimeout(8*time.Minute),
			func(ctx SpecContext) {
				out := meddled(ctx, "set-scale-light", twinned)
				expectFinding(out, "set-identity", "Pod by-hand", "had the identity of pod light-0")
			})

		It("is found when a pod is ended in the StatefulSet's name under OnDelete", SpecTimeout(8*time.Minute),
			func(ctx SpecContext) {
				out := meddled(ctx, "set-on-delete-light", endedInItsName)
				expectFinding(out, "set-on-delete", "Pod light-0, at revision", "was ended by its StatefulSet")
			})

		It("is found when the lowest pod is the first that an update ends", SpecTimeout(8*time.Minute),
			func(ctx SpecContext) {
				out := meddled(ctx, "set-canary-light", endedInItsName)
				expectFinding(
					out,
					"set-update",
					"Pod light-0 was ended by the rolling update to",
					"was still at revision",
				)
			})

		It("is found when a status tells of pods that are not there", SpecTimeout(8*time.Minute),
			func(ctx SpecContext) {
				out := meddled(ctx, "set-scale-light", miscounted)
				expectFinding(out, "set-status", "The status of StatefulSet", "replicas is 7")
			})

		It("is found when a claim gets a larger volume than it needs", SpecTimeout(8*time.Minute),
			func(ctx SpecContext) {
				out := meddled(ctx, "set-scale-light", boundToTheLargest)
				expectFinding(out, "set-binding", "Claim data-light-1, which wants", "was free on node")
			})

		It("is found when pods that promised no order are held to OrderedReady", SpecTimeout(8*time.Minute),
			func(ctx SpecContext) {
				out := runScenario(ctx, "set-burst-light")
				expectVerdict(out, check.Pass)
				h, err := out.Dir.ReadHistory()
				Expect(err).NotTo(HaveOccurred())
				out.Report = check.Run(ordered(h), trial.AllParts().Checks)
				expectFinding(out, "order", "light-", "")
			})
	})

// expectFinding holds that a check finds something whose sentence has both parts.
func expectFinding(out trial.Outcome, name, says, and string) {
	GinkgoHelper()
	r := result(out, name)
	Expect(r.Verdict).To(Equal(check.Fail), "check %q", name)
	Expect(slices.ContainsFunc(r.Findings, func(f check.Finding) bool {
		return strings.Contains(f.Sentence, says) && strings.Contains(f.Sentence, and)
	})).To(BeTrue(), "check %q finds %q and %q among %v", name, says, and, r.Findings)
}

// ordered is the history with OrderedReady wherever it says Parallel.
func ordered(h history.History) history.History {
	for i := range h.Events {
		e := &h.Events[i]
		e.Plan = bytes.ReplaceAll(e.Plan, []byte(`"parallel":true,`), nil)
		if e.Object != nil && e.Object.Resource == "statefulsets" {
			o := *e.Object
			o.Raw = bytes.ReplaceAll(o.Raw, []byte(`"podManagementPolicy":"Parallel"`),
				[]byte(`"podManagementPolicy":"OrderedReady"`))
			e.Object = &o
		}
	}
	return h
}

// sabotage looks once at the trial's StatefulSet, does something when it is time to, and reports whether it did.
type sabotage func(ctx context.Context, kube kubernetes.Interface, set *appsv1.StatefulSet) (bool, error)

// meddled carries a scenario out with a sabotage beside it, which must have been done.
func meddled(ctx context.Context, scenario string, do sabotage) trial.Outcome {
	GinkgoHelper()
	s, ok := trial.AllParts().Named(scenario)
	Expect(ok).To(BeTrue(), "scenario %q", scenario)
	return meddledPlan(ctx, s, do)
}

func meddledPlan(ctx context.Context, s plan.Scenario, do sabotage) trial.Outcome {
	GinkgoHelper()
	kubeconfig, err := at.place.Cluster.Kubeconfig(ctx)
	Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	kube, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	beside, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() {
		done <- await.Until(beside, "the moment to break a promise", 100*time.Millisecond, 5*time.Minute,
			func(ctx context.Context) (bool, string, error) { return anywhere(ctx, kube, do) })
	}()
	out := carryOut(ctx, s, "run")
	end()
	Expect(<-done).To(Succeed(), "the sabotage of %s", s.Name)
	return out
}

// anywhere does it to the one StatefulSet that a trial has made.
func anywhere(ctx context.Context, kube kubernetes.Interface, do sabotage) (bool, string, error) {
	sets, err := kube.AppsV1().StatefulSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: fixtures.RunLabel,
	})
	if err != nil {
		return false, "", err
	}
	for i := range sets.Items {
		if set := &sets.Items[i]; set.DeletionTimestamp == nil {
			ok, err := do(ctx, kube, set)
			return ok, "it is not there yet", err
		}
	}
	return false, "there is no StatefulSet", nil
}

// relabelled tells the first pod, while it is below the partition, that it is of the update revision.
func relabelled(ctx context.Context, kube kubernetes.Interface, set *appsv1.StatefulSet) (bool, error) {
	st, rolling := set.Status, set.Spec.UpdateStrategy.RollingUpdate
	if st.UpdateRevision == "" || st.UpdateRevision == st.CurrentRevision || rolling == nil ||
		rolling.Partition == nil || *rolling.Partition < 1 {
		return false, nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"controller-revision-hash":%q}}}`, st.UpdateRevision)
	_, err := kube.CoreV1().Pods(set.Namespace).Patch(ctx, set.Name+"-0", types.MergePatchType, patch,
		metav1.PatchOptions{})
	return err == nil, err
}

// twinned makes a pod with the host name, the subdomain and the claim of the first one, beside it.
func twinned(ctx context.Context, kube kubernetes.Interface, set *appsv1.StatefulSet) (bool, error) {
	pods := kube.CoreV1().Pods(set.Namespace)
	first, err := pods.Get(ctx, set.Name+"-0", metav1.GetOptions{})
	if err != nil || first.Status.Phase != corev1.PodRunning {
		return false, nil //nolint:nilerr // It is not there yet.
	}
	_, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Spec: first.Spec},
		metav1.CreateOptions{})
	return err == nil, err
}

// unclaimed deletes the claim of the first pod once all are available, and takes its protection away.
func unclaimed(ctx context.Context, kube kubernetes.Interface, set *appsv1.StatefulSet) (bool, error) {
	if !available(set) {
		return false, nil
	}
	claims := kube.CoreV1().PersistentVolumeClaims(set.Namespace)
	name := "data-" + set.Name + "-0"
	if err := claims.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	_, err := claims.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
	return err == nil || apierrors.IsNotFound(err), nil
}

// available reports that every pod of a StatefulSet is available.
func available(set *appsv1.StatefulSet) bool {
	return set.Status.ObservedGeneration == set.Generation && set.Status.AvailableReplicas == *set.Spec.Replicas
}

// endedInItsName ends the first pod as the StatefulSet's controller does, with the controller's event, while the others
// wait for an update.
func endedInItsName(ctx context.Context, kube kubernetes.Interface, set *appsv1.StatefulSet) (bool, error) {
	if !available(set) || set.Status.UpdateRevision == set.Status.CurrentRevision {
		return false, nil
	}
	name, now := set.Name+"-0", metav1.Now()
	if err := kube.CoreV1().Pods(set.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return false, err
	}
	_, err := kube.CoreV1().Events(set.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: set.Name + ".", Namespace: set.Namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: set.Namespace, Name: set.Name, UID: set.UID,
		},
		Type:    corev1.EventTypeNormal,
		Reason:  "SuccessfulDelete",
		Message: fmt.Sprintf("delete Pod %s in StatefulSet %s successful", name, set.Name),
		Source: corev1.EventSource{
			Component: "statefulset-controller",
		},
		FirstTimestamp: now,
		LastTimestamp:  now,
		Count:          1,
	}, metav1.CreateOptions{})
	return err == nil, err
}

// miscounted writes a number of pods into the status of a StatefulSet that it never had.
func miscounted(ctx context.Context, kube kubernetes.Interface, set *appsv1.StatefulSet) (bool, error) {
	if !available(set) {
		return false, nil
	}
	_, err := kube.AppsV1().StatefulSets(set.Namespace).Patch(ctx, set.Name, types.MergePatchType,
		[]byte(`{"status":{"replicas":7}}`), metav1.PatchOptions{}, "status")
	return err == nil, err
}

// boundToTheLargest reserves the largest volume that is free for the claim of the second pod, before that is made.
func boundToTheLargest(ctx context.Context, kube kubernetes.Interface, set *appsv1.StatefulSet) (bool, error) {
	volumes, err := kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	var largest *corev1.PersistentVolume
	size := func(pv *corev1.PersistentVolume) int64 { return pv.Spec.Capacity.Storage().Value() }
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		if pv.Spec.StorageClassName == *set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName &&
			pv.Status.Phase == corev1.VolumeAvailable && (largest == nil || size(pv) > size(largest)) {
			largest = pv
		}
	}
	if largest == nil {
		return false, nil
	}
	largest.Spec.ClaimRef = &corev1.ObjectReference{
		APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: set.Namespace, Name: "data-" + set.Name + "-1",
	}
	_, err = kube.CoreV1().PersistentVolumes().Update(ctx, largest, metav1.UpdateOptions{})
	return err == nil, err
}

// Violations of what is promised of disks that can move.
var _ = Describe("a promise about disks that is broken on purpose", Serial,
	Label("shareddisk", "mysql", "slow", "violations"), func() {
		if !asked("violations") {
			return
		}
		It("is found when a second writer works in a volume", SpecTimeout(12*time.Minute), func(ctx SpecContext) {
			out := meddledPlan(ctx, onDisk(), func(ctx context.Context, kube kubernetes.Interface,
				set *appsv1.StatefulSet,
			) (bool, error) {
				// The program that keeps the witness, once more, in the container of the first one.
				return inVolume(ctx, kube, set, `for p in /proc/[0-9]*/root/usr/bin/seatrial-mysql-start; do `+
					`[ -x "$p" ] && exec systemd-run --collect --property=RuntimeMaxSec=8 `+
					`--setenv=SEATRIAL_NODE=twin --setenv=SEATRIAL_POD_UID="$0" "$p" witness "$1"; done; exit 9`)
			})
			expectFinding(out, "witness", "The witness file of volume", "was written by two")
		})

		It("is found when a volume has the identity of another", SpecTimeout(12*time.Minute), func(ctx SpecContext) {
			out := meddledPlan(ctx, onDisk(), func(ctx context.Context, kube kubernetes.Interface,
				set *appsv1.StatefulSet,
			) (bool, error) {
				return inVolume(ctx, kube, set, `echo another > "$1/.seatrial-volume"`)
			})
			expectFinding(out, "right-volume", "mysql-0 on node", "the identity in it was that of volume another")
		})

		It("is found when an attachment is told before the disk is there", SpecTimeout(12*time.Minute),
			func(ctx SpecContext) {
				out := meddledPlan(ctx, slowlyAttached(), attachedInWords)
				expectFinding(out, "stage-order", "NodeStageVolume of volume",
					"although ControllerUnpublishVolume had undone that")
			})

		It("is found when the attachment of a volume in use is deleted", SpecTimeout(12*time.Minute),
			func(ctx SpecContext) {
				out := meddledPlan(ctx, onDisk(), unattached())
				expectFinding(out, "detach-in-use", "The VolumeAttachment of volume",
					"was Ready, had the volume in use")
			})
	})

// unattached deletes the VolumeAttachment of a volume that its node has listed for longer than any watch lags.
func unattached() sabotage {
	var listed time.Time
	return func(ctx context.Context, kube kubernetes.Interface, set *appsv1.StatefulSet) (bool, error) {
		attachments := kube.StorageV1().VolumeAttachments()
		all, err := attachments.List(ctx, metav1.ListOptions{})
		if err != nil || len(all.Items) != 1 || !all.Items[0].Status.Attached || !available(set) {
			return false, err
		}
		node, err := kube.CoreV1().Nodes().Get(ctx, all.Items[0].Spec.NodeName, metav1.GetOptions{})
		if err != nil || len(node.Status.VolumesInUse) == 0 {
			return false, err
		}
		if listed.IsZero() {
			listed = time.Now()
		}
		if time.Since(listed) < 12*time.Second {
			return false, nil
		}
		return true, attachments.Delete(ctx, all.Items[0].Name, metav1.DeleteOptions{})
	}
}

// onDisk is a database on a disk that can move, at work for a while.
func onDisk() plan.Scenario {
	return plan.Scenario{Name: "violation-on-disk", Build: func(*rand.Rand) plan.Plan {
		return scenarios.Trial(scenarios.Disk(1, "single"),
			scenarios.Load(200), scenarios.Checksum("before"), scenarios.Load(200), scenarios.Checksum("after"))
	}}
}

// slowlyAttached is two databases on such disks, of which the second one's is attached late.
func slowlyAttached() plan.Scenario {
	return plan.Scenario{Name: "violation-attach", Build: func(*rand.Rand) plan.Plan {
		late := plan.Params{"rpc": "ControllerPublishVolume", "act": "delay", "delay": plan.Duration(15 * time.Second),
			"every": true}
		return scenarios.Trial(scenarios.Disk(2, "single"), scenarios.Load(50), scenarios.Scale(1),
			scenarios.CSIPoint(late, 0, 6*time.Minute, scenarios.Scale(2)), scenarios.Load(50))
	}}
}

// inVolume runs a script on the node of the first pod, once that is Ready, with its uid and the directory of its
// volume.
func inVolume(ctx context.Context, kube kubernetes.Interface, set *appsv1.StatefulSet, script string) (bool, error) {
	if !available(set) {
		return false, nil
	}
	pod, err := kube.CoreV1().Pods(set.Namespace).Get(ctx, set.Name+"-0", metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	claim, err := kube.CoreV1().PersistentVolumeClaims(set.Namespace).Get(ctx, "data-"+pod.Name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	nodes, err := at.place.Cluster.Nodes(ctx)
	if err != nil {
		return false, err
	}
	for _, n := range nodes {
		if n.Name() == pod.Spec.NodeName {
			_, err := clusters.Run(ctx, n, "sh", "-c", script, string(pod.UID), fmt.Sprintf(
				"/var/lib/kubelet/pods/%s/volumes/kubernetes.io~csi/%s/mount", pod.UID, claim.Spec.VolumeName))
			return err == nil, err
		}
	}
	return false, fmt.Errorf("find node %q of pod %q: the cluster does not list it", pod.Spec.NodeName, pod.Name)
}

// attachedInWords writes into the status of an attachment that is under way that it is done.
func attachedInWords(ctx context.Context, kube kubernetes.Interface, set *appsv1.StatefulSet) (bool, error) {
	all, err := kube.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil || *set.Spec.Replicas != 2 || set.Generation < 3 {
		return false, err
	}
	for _, a := range all.Items {
		if !a.Status.Attached && a.DeletionTimestamp == nil {
			_, err := kube.StorageV1().VolumeAttachments().Patch(ctx, a.Name, types.MergePatchType,
				[]byte(`{"status":{"attached":true}}`), metav1.PatchOptions{}, "status")
			return err == nil, err
		}
	}
	return false, nil
}
