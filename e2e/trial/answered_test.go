package trial

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/seatrial/seatrial/chaos/await"
)

func TestAnAPIServerThatIsAwayIsWaitedFor(t *testing.T) {
	refused := errors.Join(errors.New("connection refused"),
		apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "mysql-0", errors.New("no rules yet")))
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "mysql-0")
	for name, tc := range map[string]struct {
		away time.Duration
		then error
		want error
		took time.Duration
	}{
		"it answers":            {0, nil, nil, 0},
		"it was away":           {10 * time.Second, nil, nil, 10 * time.Second},
		"it says no":            {10 * time.Second, gone, gone, 10 * time.Second},
		"it does not come back": {time.Hour, nil, await.ErrTimeout, answerBound},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				err := answered(t.Context(), "an answer", func(ctx context.Context) error {
					if time.Since(begin) >= tc.away {
						return tc.then
					}
					return refused
				})
				if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
				if errors.Is(tc.want, await.ErrTimeout) && !strings.Contains(err.Error(), "connection refused") {
					t.Errorf("got %v", err)
				}
				if took := time.Since(begin); took < tc.took || took > tc.took+time.Second {
					t.Errorf("took %s, want %s", took, tc.took)
				}
			})
		})
	}
}
