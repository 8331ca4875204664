package object

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
)

// ClaimDelete deletes every claim that the victim's pod mounts while the pod uses it, on condition of its uid, as a
// person does who cleans up in the wrong namespace. The protection must hold: a claim is there as long as the pod, and
// is gone only after it. What is in the volume then goes as its reclaim policy says.
func ClaimDelete() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "claim-delete",
		Summary: "Deletes the claims of the victim's pod while it uses them: they must stay until the pod is gone.",
		Shown:   "The claim has a deletionTimestamp and the finalizer of its protection, and its pod is there.",
		Healed: "Nothing can be undone; each claim is still there as its pod is, kept by the finalizer, or is gone " +
			"after it.",
		Needs: []string{"api"},
		// Storage Object in Use Protection: without it the volume of a running database could be deleted.
		Takes:    []plan.Part{plan.PartClaim},
		Upstream: "k/k#45143",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
		return &claimDelete{victim: victim{Env: env}}, nil
	})
}

// protection is k8s.io/kubernetes pkg/volume/util PVCProtectionFinalizer.
const protection = "kubernetes.io/pvc-protection"

type claimDelete struct {
	victim
	claims []deletedClaim
}

type deletedClaim struct {
	name string
	uid  types.UID
}

// Inject notes which pod is the victim, and deletes its claims.
func (d *claimDelete) Inject(ctx context.Context) error {
	pod, err := d.find(ctx)
	if err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil {
		return fmt.Errorf("delete the claims of %s: the pod is being deleted already", &d.victim)
	}
	for _, name := range claimsOf(pod) {
		claim, err := d.lookClaim(ctx, name)
		if err != nil {
			return err
		}
		switch {
		case claim == nil:
			return fmt.Errorf("delete claim %q of %s: it is not there", name, &d.victim)
		case claim.DeletionTimestamp != nil:
			return fmt.Errorf("delete claim %q of %s: it is being deleted already, since before this fault", name,
				&d.victim)
		}
		err = d.Kube.CoreV1().PersistentVolumeClaims(d.Namespace).Delete(ctx, name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &claim.UID},
		})
		if err != nil {
			return fmt.Errorf("delete claim %q of %s: %w", name, &d.victim, err)
		}
		d.claims = append(d.claims, deletedClaim{name, claim.UID})
	}
	if len(d.claims) == 0 {
		return fmt.Errorf("delete the claims of %s: it has none", &d.victim)
	}
	return nil
}

// claimsOf returns the names of the claims that a pod mounts.
func claimsOf(pod *corev1.Pod) []string {
	var names []string
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// lookClaim returns the claim of that name, nil when there is none.
func (d *claimDelete) lookClaim(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := d.Kube.CoreV1().PersistentVolumeClaims(d.Namespace).Get(ctx, name, metav1.GetOptions{})
	return fault.Optional(fmt.Sprintf("claim %q", name), claim, err)
}

// Confirm shows that every claim is being deleted and kept.
func (d *claimDelete) Confirm(ctx context.Context) ([]fault.Fact, error) {
	if len(d.claims) == 0 {
		return nil, errors.New("no claim was deleted yet")
	}
	return d.each(ctx, "to be deleted and kept while its pod is there", actBound, d.kept)
}

// each waits until every claim, nil when there is none of that uid, gives a sentence. The pod is looked at last: one
// that is there then was there when its claim was seen to be gone.
func (d *claimDelete) each(ctx context.Context, what string, bound time.Duration,
	judge func(c deletedClaim, claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) (string, error),
) ([]fault.Fact, error) {
	var shows []fault.Show
	for _, c := range d.claims {
		look := func(ctx context.Context) ([]fault.Fact, error) {
			begin := d.Clock()
			claim, err := d.lookClaim(ctx, c.name)
			if err != nil {
				return nil, err
			}
			pod, err := d.look(ctx)
			if err != nil {
				return nil, err
			}
			if claim != nil && claim.UID != c.uid {
				claim = nil
			}
			sentence, err := judge(c, claim, pod)
			if err != nil {
				return nil, err
			}
			return d.Saw(begin, "%s", sentence), nil
		}
		shows = append(shows, fault.Await(fmt.Sprintf("%s %s", c, what), every, bound, look))
	}
	return fault.All(ctx, shows...)
}

// String names the claim for a sentence.
func (c deletedClaim) String() string { return fmt.Sprintf("claim %q (uid %s)", c.name, c.uid) }

// kept gives a sentence for a claim that is being deleted, and kept by its protection for a pod that is there.
func (d *claimDelete) kept(c deletedClaim, claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) (string, error) {
	switch {
	case claim == nil:
		return "", fault.NotYet("it is gone")
	case claim.DeletionTimestamp == nil:
		return "", fault.NotYet("it is not being deleted")
	case !slices.Contains(claim.Finalizers, protection):
		return "", fault.NotYet("its finalizers are %q, without %s", claim.Finalizers, protection)
	case d.gone(pod) != "":
		return "", fault.NotYet("%s", d.gone(pod))
	}
	return fmt.Sprintf("%s is being deleted since %s, and kept by %s while %s is there", c,
		claim.DeletionTimestamp.UTC().Format(time.TimeOnly), protection, &d.victim), nil
}

// Held shows that the protection holds, or that the pod of before is gone and there is nothing left to protect.
func (d *claimDelete) Held(ctx context.Context) ([]fault.Fact, error) {
	return d.each(ctx, "to be kept while its pod is there", time.Second, d.keptOrOver)
}

// keptOrOver is kept, and goes on when the pod of before is gone.
func (d *claimDelete) keptOrOver(c deletedClaim, claim *corev1.PersistentVolumeClaim, pod *corev1.Pod) (string, error) {
	gone := d.gone(pod)
	switch {
	case gone == "":
		return d.kept(c, claim, pod)
	case claim == nil:
		return fmt.Sprintf("%s is gone, and %s", c, gone), nil
	}
	return fmt.Sprintf("%s is there still, and %s", c, gone), nil
}

// Heal has nothing to undo: a deletion cannot be taken back.
func (d *claimDelete) Heal(context.Context) error { return nil }

// ConfirmHealed shows that the claims outlived their pod, or are there with it. Without a claim that was deleted here,
// it shows what the pod has.
func (d *claimDelete) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	if len(d.claims) == 0 {
		return d.replaced(ctx)
	}
	return d.each(ctx, "to be there with its pod, or gone after it", actBound, d.keptOrOver)
}
