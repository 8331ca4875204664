package suites_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/trial"
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

		It("is found when pods that promised no order are held to OrderedReady", SpecTimeout(8*time.Minute),
			func(ctx SpecContext) {
				out := sail(ctx, "set-burst-light")
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
type sabotage func(ctx context.Context, kube kubernetes.Interface, namespace string) (bool, error)

// meddled carries a scenario out with a sabotage beside it, which must have been done.
func meddled(ctx context.Context, scenario string, do sabotage) trial.Outcome {
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
	out := sail(ctx, scenario)
	end()
	Expect(<-done).To(Succeed(), "the sabotage of %s", scenario)
	return out
}

// anywhere does it to the one StatefulSet of light pods.
func anywhere(ctx context.Context, kube kubernetes.Interface, do sabotage) (bool, string, error) {
	sets, err := kube.AppsV1().StatefulSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, "", err
	}
	for _, set := range sets.Items {
		if set.Name == plan.LightName && set.DeletionTimestamp == nil {
			ok, err := do(ctx, kube, set.Namespace)
			return ok, "it is not there yet", err
		}
	}
	return false, "there is no StatefulSet", nil
}

// relabelled tells the first pod, while it is below the partition, that it is of the update revision.
func relabelled(ctx context.Context, kube kubernetes.Interface, namespace string) (bool, error) {
	set, err := kube.AppsV1().StatefulSets(namespace).Get(ctx, plan.LightName, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	st, rolling := set.Status, set.Spec.UpdateStrategy.RollingUpdate
	if st.UpdateRevision == "" || st.UpdateRevision == st.CurrentRevision || rolling == nil ||
		rolling.Partition == nil || *rolling.Partition < 1 {
		return false, nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"controller-revision-hash":%q}}}`, st.UpdateRevision)
	_, err = kube.CoreV1().Pods(namespace).Patch(ctx, plan.LightName+"-0", types.MergePatchType, patch,
		metav1.PatchOptions{})
	return err == nil, err
}

// twinned makes a pod with the host name, the subdomain and the claim of the first one, beside it.
func twinned(ctx context.Context, kube kubernetes.Interface, namespace string) (bool, error) {
	pods := kube.CoreV1().Pods(namespace)
	first, err := pods.Get(ctx, plan.LightName+"-0", metav1.GetOptions{})
	if err != nil || first.Status.Phase != corev1.PodRunning {
		return false, nil //nolint:nilerr // It is not there yet.
	}
	_, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Spec: first.Spec},
		metav1.CreateOptions{})
	return err == nil, err
}

// unclaimed deletes the claim of the first pod once all are available, and takes its protection away.
func unclaimed(ctx context.Context, kube kubernetes.Interface, namespace string) (bool, error) {
	set, err := kube.AppsV1().StatefulSets(namespace).Get(ctx, plan.LightName, metav1.GetOptions{})
	if err != nil || set.Status.AvailableReplicas < *set.Spec.Replicas {
		return false, err
	}
	claims := kube.CoreV1().PersistentVolumeClaims(namespace)
	name := "data-" + plan.LightName + "-0"
	if err := claims.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	_, err = claims.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
	return err == nil || apierrors.IsNotFound(err), nil
}
