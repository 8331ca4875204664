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

// ClaimDelete deletes every claim that the victim's pod mounts while the pod uses it, by uid, as an operator does in
// the wrong namespace. The claim protection must hold: a claim stays as long as the pod, and goes only after it. The
// volume then follows its reclaim policy.
func ClaimDelete() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "claim-delete",
		Summary: "Deletes the claims of the victim's pod while it uses them: they must stay until the pod is gone.",
		Shown:   "The claim has a deletionTimestamp and its protection finalizer, and its pod exists.",
		Healed: "Nothing is undone; each claim exists as long as its pod does, kept by the finalizer, or is gone " +
			"after it.",
		Needs: []string{"api"},
		// Without Storage Object in Use Protection, the volume of a running database could be deleted.
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

func (d *claimDelete) Inject(ctx context.Context) error {
	pod, err := d.find(ctx)
	if err != nil {
		return err
	}
	if pod.DeletionTimestamp != nil {
		return fmt.Errorf("delete the claims of %s: the pod is being deleted already", &d.victim)
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		name := v.PersistentVolumeClaim.ClaimName
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

// lookClaim returns the claim with that name, nil if there is none.
func (d *claimDelete) lookClaim(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := d.Kube.CoreV1().PersistentVolumeClaims(d.Namespace).Get(ctx, name, metav1.GetOptions{})
	return fault.Optional(fmt.Sprintf("claim %q", name), claim, err)
}

func (d *claimDelete) Confirm(ctx context.Context) ([]fault.Fact, error) {
	if len(d.claims) == 0 {
		return nil, errors.New("no claim was deleted yet")
	}
	return d.each(ctx, "to be deleted and kept while its pod is there", actBound, d.kept)
}

// each waits until judge returns a sentence for every claim; a claim with another uid is passed as nil. It reads the
// pod last, so a pod that is there outlasted a claim that is gone.
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

// String returns the claim's name and uid, for a sentence.
func (c deletedClaim) String() string { return fmt.Sprintf("claim %q (uid %s)", c.name, c.uid) }

// kept returns a sentence for a claim that is being deleted and protected while its pod exists.
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

// Held checks that the protection holds, or that the pod is gone and needs none.
func (d *claimDelete) Held(ctx context.Context) ([]fault.Fact, error) {
	return d.each(ctx, "to be kept while its pod is there", time.Second, d.keptOrOver)
}

// keptOrOver is kept while the pod exists, and accepts any state of the claim once it is gone.
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

// Heal does nothing: a deletion cannot be undone.
func (d *claimDelete) Heal(context.Context) error { return nil }

// ConfirmHealed shows that each claim exists with its pod, or that the pod is gone. If no claim was deleted, it shows
// the pod of the victim's name.
func (d *claimDelete) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	if len(d.claims) == 0 {
		return d.replaced(ctx)
	}
	return d.each(ctx, "to be there with its pod, or gone after it", actBound, d.keptOrOver)
}
