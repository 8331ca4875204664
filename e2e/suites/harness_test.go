package suites_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/lock"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/trial"
)

var _ = Describe("a harness in trouble", Serial, Label("harness"), func() {
	It("is refused within 2 s when another one uses the cluster, and is told by whom", SpecTimeout(time.Minute),
		func(ctx SpecContext) {
			var said bytes.Buffer
			cmd := exec.CommandContext(ctx, at.place.Program, "run", "smoke", "--seed", "1", "--cluster",
				at.place.Cluster.Name(), "--reuse", "--runs", GinkgoT().TempDir())
			cmd.Stdout, cmd.Stderr = &said, &said
			begin := time.Now()
			err := cmd.Run()
			took := time.Since(begin)
			AddReportEntry("refused after", took)
			var exit *exec.ExitError
			Expect(errors.As(err, &exit)).To(BeTrue(), "%v: %s", err, &said)
			Expect(exit.ExitCode()).To(Equal(254), said.String())
			Expect(said.String()).To(ContainSubstring("is used by process"))
			Expect(took).To(BeNumerically("<", 2*time.Second))
		})

	It("is refused on another host by the Lease on the cluster", SpecTimeout(time.Minute), func(ctx SpecContext) {
		far := lock.Self([]string{"seatrial", "run", "smoke"})
		far.Host, far.Boot, far.PID = "elsewhere", "another", 7
		second, err := lock.Take(GinkgoT().TempDir(), at.place.Cluster.Name(), far, slog.New(slog.DiscardHandler))
		Expect(err).NotTo(HaveOccurred())
		kube := client(ctx)
		begin := time.Now()
		err = second.Hold(ctx, kube)
		var taken *lock.TakenError
		Expect(errors.As(err, &taken)).To(BeTrue(), "%v", err)
		Expect(taken.Holder.PID).NotTo(BeZero())
		Expect(time.Since(begin)).To(BeNumerically("<", 2*time.Second))
		Expect(second.Release(ctx)).To(Succeed())
	})

	It("ends UNKNOWN and says why when the run directory is full, with its faults healed and nothing left",
		SpecTimeout(6*time.Minute), func(ctx SpecContext) {
			dir := GinkgoT().TempDir()
			Expect(unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m")).To(Succeed())
			DeferCleanup(func() error { return unix.Unmount(dir, unix.MNT_DETACH) })
			seed := uint64(GinkgoRandomSeed())
			p := plan.Make(hurtAndFull(), seed)
			Expect(trial.Validate(trial.AllParts(), p)).To(Succeed())
			full := &flood{at: "step 2 ", path: filepath.Join(dir, "flood"), then: func() { makeNews(ctx) }}
			out, err := at.place.Run(ctx, trial.RunOptions{
				Plan: p, RunsDir: dir, Progress: io.MultiWriter(GinkgoWriter, full),
				Header: report.Run{CommandLine: []string{"seatrial", "run"}},
			})
			Expect(full.err).To(MatchError(unix.ENOSPC))
			Expect(err).NotTo(HaveOccurred())
			Expect(os.Remove(full.path)).To(Succeed())
			expectVerdict(out, check.Unknown)
			h, err := out.Dir.ReadHistory()
			Expect(err).NotTo(HaveOccurred())
			for _, e := range h.Events {
				healed := e.Fault != nil && e.Fault.Stage == history.StageHealed
				Expect(healed).To(BeFalse(), "the record goes on beyond the fault")
			}
			text, err := out.Dir.ReadFile("report.txt")
			Expect(err).NotTo(HaveOccurred())
			Expect(string(text)).To(MatchRegexp(`because: .*\n?.*no\s+space\s+left\s+on\s+device`))
			expectNothingLeft(ctx)
		})
})

// hurtAndFull is a fault during which there is time for the disk to be full.
func hurtAndFull() plan.Scenario {
	return plan.Scenario{Name: "disk-full", Summary: "The run directory is full.", Expect: "UNKNOWN",
		Build: func(*rand.Rand) plan.Plan {
			pause := plan.Step{
				Do: plan.ActionPause, Lasting: plan.Duration(3 * time.Second), Bound: plan.Duration(time.Minute),
			}
			return scenarios.Trial(scenarios.Light(2), scenarios.Within("runtime-stop", 0, 3*time.Minute, pause))
		},
	}
}

// flood fills a file system when it is told of something.
type flood struct {
	at, path string
	then     func() // Called when it is full.
	err      error
}

// Write takes what the trial tells.
func (f *flood) Write(line []byte) (int, error) {
	if f.err != nil || !bytes.Contains(line, []byte(f.at)) {
		return len(line), nil //nolint:nilerr // It is asked for at the end.
	}
	file, err := os.Create(f.path)
	for block := make([]byte, 1<<16); err == nil; {
		_, err = file.Write(block)
	}
	f.err = err
	f.then()
	return len(line), nil
}

// makeNews makes and deletes an object that is watched, so large that there is no room for it in the history's last
// block, and that cannot be compressed.
func makeNews(ctx context.Context) {
	GinkgoHelper()
	r := rand.New(rand.NewPCG(1, 2))
	news := make([]byte, 100<<10)
	for i := range news {
		news[i] = byte('!' + 1 + r.IntN(90))
	}
	volumes := client(ctx).CoreV1().PersistentVolumes()
	_, err := volumes.Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "seatrial-news", Annotations: map[string]string{"news": string(news)}},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/none"},
			},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(volumes.Delete(ctx, "seatrial-news", metav1.DeleteOptions{})).To(Succeed())
}

// expectNothingLeft looks for marks of ours on every node and on API objects, and for namespaces of trials.
func expectNothingLeft(ctx context.Context) {
	GinkgoHelper()
	nodes, err := at.place.Cluster.Nodes(ctx)
	Expect(err).NotTo(HaveOccurred())
	reports, err := undo.Cluster(ctx, nodes, nil)
	Expect(err).NotTo(HaveOccurred())
	for _, r := range reports {
		Expect(r.Nothing()).To(BeTrue(), "%s: %s", r.Node, r)
	}
	all, err := client(ctx).CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, n := range all.Items {
		Expect(n.Spec.Unschedulable).To(BeFalse(), n.Name)
	}
}

// client reaches the API server of the specs' cluster.
func client(ctx context.Context) kubernetes.Interface {
	GinkgoHelper()
	kubeconfig, err := at.place.Cluster.Kubeconfig(ctx)
	Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	kube, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return kube
}
