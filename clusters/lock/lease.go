package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/clusters"
)

// The Lease that excludes harnesses on other hosts.
const (
	LeaseNamespace = "kube-system"
	LeaseName      = "seatrial"
	holderKey      = "seatrial/holder" // The annotation with the Holder, as JSON.
)

const (
	// leaseLasts is how long a Lease that is not renewed is valid, unless its process is known to have ended.
	leaseLasts = 60 * time.Second
	renewEvery = 15 * time.Second
	// apiBound is how long the API server may take to answer.
	apiBound = 10 * time.Second
)

// Hold takes the Lease on the cluster and renews it until Release. The error for a cluster that another harness uses is
// a *TakenError. A failed renewal is no error: a fault may have stopped the API server.
func (b *Lock) Hold(ctx context.Context, kube kubernetes.Interface) error {
	bounded, cancel := context.WithTimeout(ctx, apiBound)
	defer cancel()
	if err := b.claim(bounded, kube); err != nil {
		return fmt.Errorf("take cluster %q: %w", b.cluster, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop()
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	b.kube, b.stop = kube, func() { stop(); group.Wait() }
	group.Go(func() { b.renew(renewing, kube) })
	return nil
}

// claim creates or updates the Lease unless another harness holds it.
func (b *Lock) claim(ctx context.Context, kube kubernetes.Interface) error {
	leases := kube.CoordinationV1().Leases(LeaseNamespace)
	fresh, err := b.lease()
	if err != nil {
		return err
	}
	_, err = leases.Create(ctx, fresh, metav1.CreateOptions{})
	if err == nil || !apierrors.IsAlreadyExists(err) {
		return err
	}
	there, err := leases.Get(ctx, LeaseName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if holder, used := usedBy(there); used && !holder.is(b.self) {
		return &TakenError{Cluster: b.cluster, Holder: holder}
	}
	fresh.ResourceVersion = there.ResourceVersion
	_, err = leases.Update(ctx, fresh, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return &TakenError{Cluster: b.cluster} // Another harness took it first.
	}
	return err
}

func (b *Lock) lease() (*coordinationv1.Lease, error) {
	holder, err := json.Marshal(b.self)
	if err != nil {
		return nil, err
	}
	identity := fmt.Sprintf("%s/%s/%d", b.self.Host, b.self.Boot, b.self.PID)
	seconds, now := int32(leaseLasts/time.Second), metav1.NewMicroTime(time.Now())
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: LeaseNamespace, Name: LeaseName, Annotations: map[string]string{holderKey: string(holder)},
			Labels: map[string]string{clusters.ManagedByLabel: clusters.ManagedBy},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &identity, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now,
		},
	}, nil
}

// usedBy returns the holder of a Lease; used is false if the Lease is over or its process is known to have ended.
func usedBy(l *coordinationv1.Lease) (h Holder, used bool) {
	if json.Unmarshal([]byte(l.Annotations[holderKey]), &h) != nil {
		h = Holder{} // Made by hand or by another version; it is valid all the same.
	}
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Spec.RenewTime == nil {
		return h, false
	}
	return h, time.Since(l.Spec.RenewTime.Time) < leaseLasts && h.alive()
}

// UsedOn returns who holds the Lease of a cluster; ok is false if nobody does.
func UsedOn(ctx context.Context, kube kubernetes.Interface) (h Holder, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiBound)
	defer cancel()
	l, err := kube.CoordinationV1().Leases(LeaseNamespace).Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, fmt.Errorf("get Lease %s/%s: %w", LeaseNamespace, LeaseName, err)
	}
	h, ok = usedBy(l)
	return h, ok, nil
}

func (b *Lock) renew(ctx context.Context, kube kubernetes.Interface) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		bounded, cancel := context.WithTimeout(ctx, apiBound)
		err := b.claim(bounded, kube)
		cancel()
		if err != nil && ctx.Err() == nil {
			b.log.Log(ctx, slog.LevelDebug, "renew the Lease on the cluster", "cluster", b.cluster, "err", err)
		}
	}
}

// giveBack deletes our Lease. The mutex is held.
func (b *Lock) giveBack(ctx context.Context) error {
	if b.kube == nil {
		return nil
	}
	kube := b.kube
	b.kube = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiBound)
	defer cancel()
	leases := kube.CoordinationV1().Leases(LeaseNamespace)
	there, err := leases.Get(ctx, LeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("release cluster %q: %w", b.cluster, err)
	}
	var holder Holder
	if err := json.Unmarshal([]byte(there.Annotations[holderKey]), &holder); err != nil || !holder.is(b.self) {
		return errors.Join(err, fmt.Errorf("release cluster %q: %s holds it", b.cluster, holder))
	}
	err = leases.Delete(ctx, LeaseName, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{ResourceVersion: &there.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("release cluster %q: %w", b.cluster, err)
	}
	return nil
}

// is reports whether two are the same process. Since loses precision in JSON.
func (h Holder) is(other Holder) bool {
	return h.PID == other.PID && h.Boot == other.Boot && h.Host == other.Host
}
