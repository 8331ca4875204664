package trial

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// volume is the volume of a pod's claim.
type volume struct {
	pv     string
	handle string // Of a CSI driver, empty without one.
}

// volume waits until the claim of a pod is bound and returns its volume.
func (c *runner) volume(ctx context.Context, pod string) (volume, error) {
	var v volume
	what := fmt.Sprintf("the claim of %s to be bound", pod)
	err := await.Until(ctx, what, lookEvery, plan.MaxBound, func(ctx context.Context) (bool, string, error) {
		claims, err := c.kube.CoreV1().PersistentVolumeClaims(c.namespace()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", fmt.Errorf("list claims: %w", err)
		}
		for _, claim := range claims.Items {
			if !strings.HasSuffix(claim.Name, "-"+pod) || claim.Spec.VolumeName == "" {
				continue
			}
			pv, err := c.kube.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
			if err != nil {
				return false, "", fmt.Errorf("get PersistentVolume: %w", err)
			}
			v.pv = pv.Name
			if pv.Spec.CSI != nil {
				v.handle = pv.Spec.CSI.VolumeHandle
			}
			return true, "", nil
		}
		return false, fmt.Sprintf("%d claims, that of %s not bound", len(claims.Items), pod), nil
	})
	return v, err
}

// at reports whether a path is a mount point of the volume, of the given kind.
func (v volume) at(path, place string) bool {
	if g, ok := history.ParseCSIGlobalMount(path); ok {
		sum := sha256.Sum256([]byte(v.handle))
		return place != plan.PlacePod && v.handle != "" && g.Hash == hex.EncodeToString(sum[:])
	}
	kv, ok := history.ParseKubeletPath(path)
	return ok && place != plan.PlaceGlobal && kv.Name == v.pv
}
