package lock_test

import (
	"bufio"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/lock"
)

// dirVar has the test binary take a cluster and wait for its end.
const dirVar = "SEATRIAL_TEST_BERTH"

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVar); dir != "" {
		if _, err := lock.Take(dir, "c", lock.Self([]string{"seatrial", "run", "smoke"}), quiet()); err != nil {
			os.Exit(1)
		}
		if _, err := os.Stdout.WriteString("taken\n"); err != nil {
			os.Exit(1)
		}
		select {}
	}
	goleak.VerifyTestMain(m)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func self() lock.Holder { return lock.Self([]string{"seatrial", "run", "other"}) }

func TestTheSecondIsRefusedAtOnceAndToldOfTheFirst(t *testing.T) {
	dir := t.TempDir()
	first := exec.Command("/proc/self/exe")
	first.Env = append(os.Environ(), dirVar+"="+dir)
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "taken\n" {
		t.Fatalf("%q, %v", line, err)
	}
	begin := time.Now()
	_, err = lock.Take(dir, "c", self(), quiet())
	var taken *lock.TakenError
	if !errors.As(err, &taken) || taken.Holder.PID != first.Process.Pid || time.Since(begin) > 2*time.Second {
		t.Errorf("got %v after %s", err, time.Since(begin))
	}
	if !strings.Contains(err.Error(), "seatrial run smoke") {
		t.Errorf("%v does not name what runs", err)
	}
	if h, ok, err := lock.Used(dir, "c"); !ok || err != nil || h.PID != first.Process.Pid {
		t.Errorf("used by %v, %t, %v", h, ok, err)
	}
	if other, err := lock.Take(dir, "d", self(), quiet()); err != nil || other.Release(t.Context()) != nil {
		t.Errorf("another cluster: %v", err)
	}
	if err := first.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // It was killed.
	b, err := lock.Take(dir, "c", self(), quiet())
	if err != nil {
		t.Fatalf("after the first has died: %v", err)
	}
	if err := errors.Join(b.Release(t.Context()), b.Release(t.Context())); err != nil {
		t.Error(err)
	}
	if _, ok, err := lock.Used(dir, "c"); ok || err != nil {
		t.Errorf("used after its release: %t, %v", ok, err)
	}
}

func TestTheLeaseKeepsOtherHostsOut(t *testing.T) {
	kube := fake.NewClientset()
	take := func(h lock.Holder) (*lock.Lock, error) {
		b, err := lock.Take(t.TempDir(), "c", h, quiet()) // Hosts share no directory.
		if err != nil {
			t.Fatal(err)
		}
		return b, b.Hold(t.Context(), kube)
	}
	far := self()
	far.Host, far.Boot, far.PID = "far", "another", 7
	first, err := take(far)
	if err != nil {
		t.Fatal(err)
	}
	second, err := take(self())
	var taken *lock.TakenError
	if !errors.As(err, &taken) || taken.Holder.Host != "far" {
		t.Errorf("got %v", err)
	}
	l, err := kube.CoordinationV1().Leases(lock.LeaseNamespace).Get(t.Context(), lock.LeaseName, metav1.GetOptions{})
	if err != nil || l.Labels[clusters.ManagedByLabel] != clusters.ManagedBy {
		t.Errorf("the Lease has the labels %v (%v)", l.Labels, err)
	}
	if h, ok, err := lock.UsedOn(t.Context(), kube); !ok || err != nil || h.PID != 7 {
		t.Errorf("used by %v, %t, %v", h, ok, err)
	}
	if err := errors.Join(second.Release(t.Context()), first.Hold(t.Context(), kube)); err != nil {
		t.Errorf("what the second does hurts the first: %v", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	third, err := take(self())
	if err != nil || third.Release(t.Context()) != nil {
		t.Errorf("after its release: %v", err)
	}
}

func TestALeaseOfADeadHarnessIsTakenOver(t *testing.T) {
	for name, h := range map[string]lock.Holder{
		"its process has ended": func() lock.Holder { h := self(); h.PID = 1 << 30; return h }(),
		"it was not renewed":    {Host: "far", Boot: "another", PID: 7},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			dead, err := lock.Take(t.TempDir(), "c", h, quiet())
			if err != nil || dead.Hold(t.Context(), kube) != nil {
				t.Fatal(err)
			}
			leases := kube.CoordinationV1().Leases(lock.LeaseNamespace)
			l, err := leases.Get(t.Context(), lock.LeaseName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			old := metav1.NewMicroTime(time.Now().Add(-2 * time.Minute))
			if h.Host == "far" {
				l.Spec.RenewTime = &old
			}
			if _, err := leases.Update(t.Context(), l, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			b, err := lock.Take(t.TempDir(), "c", self(), quiet())
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Hold(t.Context(), kube); err != nil {
				t.Error(err)
			}
			if err := dead.Release(t.Context()); err == nil {
				t.Error("the dead one gave back what is not its own")
			}
			if err := b.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestANameThatIsAPathIsRefused(t *testing.T) {
	for _, name := range []string{"../c", "a/b", "..", ".", "/etc/c"} {
		if _, err := lock.Take(t.TempDir(), name, self(), quiet()); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}
