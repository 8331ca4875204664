package controlplane

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestARefusalIsAnAnswer distinguishes a refusal by a working API server from one that is down or fails inside.
func TestARefusalIsAnAnswer(t *testing.T) {
	leases := schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	for err, want := range map[error]bool{
		apierrors.NewNotFound(leases, manager):                          true,
		apierrors.NewForbidden(leases, manager, errors.New("no")):       true,
		apierrors.NewUnauthorized("who are you"):                        true,
		apierrors.NewInternalError(errors.New("etcdserver: no leader")): false,
		apierrors.NewServiceUnavailable("shutting down"):                false,
		apierrors.NewServerTimeout(leases, "get", 1):                    false,
		apierrors.NewTooManyRequestsError("later"):                      false,
		errors.New("connection refused"):                                false,
		context.DeadlineExceeded:                                        false,
	} {
		if got := refusal(fmt.Errorf("get lease: %w", err)); got != want {
			t.Errorf("%v: %t, want %t", err, got, want)
		}
	}
}
