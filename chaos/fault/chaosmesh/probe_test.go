package chaosmesh

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	fakecluster "github.com/seatrial/seatrial/clusters/fake"
)

// volume is a pod's volume on a node, with the outcome of reading a file's attributes.
type volume struct {
	takes time.Duration
	once  time.Duration // What every fourth call takes.
	calls int
	fails syscall.Errno
}

func (v *volume) env(t *testing.T) fault.Env {
	t.Helper()
	n := fakecluster.NewNode("worker", clusters.RoleWorker, nil)
	n.On([]string{"/usr/local/bin/seatrial-agent", "..."}, fakecluster.Reply{
		Stdout: `{"at": 1, "processes": [{"pid": 9, "start": 1, "name": "mysqld", "podUID": "u"}]}`,
	})
	n.On([]string{"find", "..."}, fakecluster.Reply{
		Stdout: "/proc/9/root/var/lib/mysql/ibdata1\n/proc/9/root/var/lib/mysql/db/t.ibd\n",
	})
	n.On([]string{"stat", "..."}, fakecluster.Reply{
		Do: func(_ context.Context, cmd clusters.Command, _ string) (clusters.Result, error) {
			if v.calls++; v.calls%4 == 0 {
				time.Sleep(v.once)
			}
			time.Sleep(v.takes + time.Millisecond)
			if v.fails != 0 {
				return clusters.Result{ExitCode: 1}, &clusters.ExitError{
					Node: "worker", Argv: cmd.Argv, ExitCode: 1, Stderr: "stat: cannot statx: Input/output error\n",
				}
			}
			return clusters.Result{Stdout: []byte("512\n")}, nil
		},
	})
	kube := fake.NewClientset(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "mysql-0", Namespace: "trial", UID: "u"},
		Spec:       corev1.PodSpec{NodeName: "worker"},
	})
	begin := time.Now()
	return fault.Env{
		Kube: kube, Node: n, Pod: "mysql-0", Namespace: "trial",
		Clock: func() history.Time { return history.Time(time.Since(begin)) + 1 },
	}
}

// TestFilesOfTheVolumeShowIOChaos sees a delay and an error come and go, and does not take a slow node for one.
func TestFilesOfTheVolumeShowIOChaos(t *testing.T) {
	for _, tc := range []struct {
		name   string
		spec   v1alpha1.IOChaosSpec
		before volume
		during volume
		want   string // Of the error of the first stage that has one.
	}{
		{"a delay", v1alpha1.IOChaosSpec{Delay: "300ms"}, volume{}, volume{takes: 300 * time.Millisecond}, ""},
		{"an error", v1alpha1.IOChaosSpec{Errno: 5}, volume{}, volume{fails: 5}, ""},
		{"nothing", v1alpha1.IOChaosSpec{Delay: "300ms"}, volume{}, volume{}, "0 of 4 calls did, want 4"},
		{"another error", v1alpha1.IOChaosSpec{Errno: 28}, volume{}, volume{fails: 5}, "0 of 3 calls did, want 1"},
		{"one slow call", v1alpha1.IOChaosSpec{Delay: "300ms"}, volume{}, volume{once: time.Second}, "want 4"},
		{"slow before", v1alpha1.IOChaosSpec{Delay: "300ms"}, volume{takes: time.Second}, volume{},
			"without the fault"},
		{"no such file", v1alpha1.IOChaosSpec{Delay: "1s", Path: "/var/lib/mysql/none"}, volume{}, volume{}, "matches"},
		{"a glob", v1alpha1.IOChaosSpec{Errno: 5, Path: "/var/lib/mysql/**/*.ibd"}, volume{}, volume{fails: 5}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := tc.before
				tc.spec.VolumePath = "/var/lib/mysql"
				f := newFiles(&v1alpha1.IOChaos{Spec: tc.spec}, v.env(t))
				err := f.before(t.Context())
				if err == nil {
					v = tc.during
					_, err = f.seen(t.Context())
				}
				if err == nil {
					v = volume{}
					_, err = f.gone(t.Context())
				}
				if tc.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			})
		})
	}
}

// TestAShareOfCallsIsMet checks that a share of one percent is missed with a probability of at most one in a million.
func TestAShareOfCallsIsMet(t *testing.T) {
	for share, want := range map[int]int{100: 3, 50: 21, 1: 1376} {
		if got := (&files{share: share}).attempts(); got != want {
			t.Errorf("%d percent: %d calls, want %d", share, got, want)
		}
	}
}
