package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trialtest"
	"github.com/seatrial/seatrial/tools/offline/layers"
)

// savedRuns is how many runs the Job judges.
const savedRuns = 2000

// TestIndexedJob has examples/job/judge.yaml judge 2,000 runs on a kind cluster while pods are killed, a node reboots
// and the store is away. What is merged is what one process makes of the same runs, byte for byte.
func TestIndexedJob(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") == "" {
		t.Skip("NOT RUN: needs a cluster: make long")
	}
	dir := t.TempDir()
	_, kube := jobCluster(t, trialtest.Options{Scenarios: []string{podScenario}, Runs: filepath.Join(dir, "runs")})
	program := filepath.Join(dir, "seatrial")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const tag = "localhost/seatrial/judge:test"
	var archive bytes.Buffer
	if err := layers.WriteProgram(&archive, tag, program, "/seatrial"); err != nil {
		t.Fatal(err)
	}
	nodes, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		container(t, bytes.NewReader(archive.Bytes()), "exec", "-i", n.Name,
			"ctr", "-n", "k8s.io", "images", "import", "-")
	}
	s := s3At(t, gateway(t))
	changed := s.fill(t)

	one := filepath.Join(dir, "one")
	alone := exec.CommandContext(t.Context(), program, "nightly", "judge", s.url("seatrial"), "--out", one)
	begin := time.Now()
	if out, err := alone.CombinedOutput(); alone.ProcessState.ExitCode() != exitViolated {
		t.Fatalf("one process: %v: %s", err, out)
	}
	t.Logf("one process: %s", time.Since(begin).Round(time.Second))

	text, err := os.ReadFile("../../examples/job/judge.yaml")
	if err != nil {
		t.Fatal(err)
	}
	filled := strings.NewReplacer("image: IMAGE", "image: "+tag, "=STORE", "=http://"+s.at).Replace(string(text))
	var job batchv1.Job
	if err := yaml.UnmarshalStrict([]byte(filled), &job); err != nil {
		t.Fatal(err)
	}
	job.Namespace = metav1.NamespaceDefault
	nightsSecret(t, kube, job.Namespace)
	begin = time.Now()
	if _, err := kube.BatchV1().Jobs(job.Namespace).Create(t.Context(), &job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	j := judging{kube, job}
	disturbed := 0
	for i, disturb := range []func(){
		func() { disturbed += j.killPods(t) },
		func() { j.reboot(t); disturbed += j.killPods(t) },
		func() {
			s.stop(t)
			time.Sleep(30 * time.Second) // How long it is away.
			s.start(t)
		},
		func() { disturbed += j.killPods(t) },
	} {
		j.until(t, int32(4+12*i))
		disturb()
	}
	j.until(t, *job.Spec.Completions)
	done, err := kube.BatchV1().Jobs(job.Namespace).Get(t.Context(), job.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the Job: %s, %d pods were killed, %d failed", time.Since(begin).Round(time.Second), disturbed,
		done.Status.Failed)
	if disturbed == 0 {
		t.Error("no pod was killed while it was at work")
	}

	merged := filepath.Join(dir, "merged")
	merge := exec.CommandContext(t.Context(), program, "nightly", "merge", s.url("judged"), "--out", merged)
	says := fmt.Sprintf("verdict: FAIL, %d of %d as expected", savedRuns-changed, savedRuns)
	if out, err := merge.CombinedOutput(); merge.ProcessState.ExitCode() != exitViolated ||
		!strings.Contains(string(out), says) {
		t.Errorf("merge: %v: %s", err, out)
	}
	for _, name := range []string{
		rundir.NightFile, rundir.JUnitFile, rundir.IndexFile, rundir.PromFile, rundir.MarkdownFile,
	} {
		want, err := os.ReadFile(rundir.OpenNight(one).Path(name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(rundir.OpenNight(merged).Path(name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s of the Job is not that of one process", name)
		}
	}
}

// jobCluster opens the kind cluster of a Job, until the test ends.
func jobCluster(t *testing.T, o trialtest.Options) (*trialtest.Cluster, kubernetes.Interface) {
	t.Helper()
	o.Cluster, o.Progress = os.Getenv("SEATRIAL_CLUSTER"), t.Output()
	c, err := trialtest.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	config, err := c.ClientConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c, kube
}

func engine() string { return cmp.Or(os.Getenv("SEATRIAL_ENGINE"), "docker") }

// container calls the container engine.
func container(t *testing.T, in io.Reader, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), engine(), args...)
	cmd.Stdin = in
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", cmd.Args, err, out)
	}
	return string(out)
}

// gateway is this host's IPv4 address in the network of kind's nodes.
func gateway(t *testing.T) string {
	t.Helper()
	out := container(t, nil, "network", "inspect", "kind", "--format", "{{range .IPAM.Config}}{{.Gateway}} {{end}}")
	for _, word := range strings.Fields(out) {
		if a, err := netip.ParseAddr(word); err == nil && a.Is4() {
			return word
		}
	}
	t.Fatalf("no IPv4 gateway in %q", out)
	return ""
}

// fill stores copies of recorded runs. A few were judged otherwise than they are now: it returns how many.
func (s *s3) fill(t *testing.T) (changed int) {
	t.Helper()
	client, err := minio.New(s.at, &minio.Options{Creds: credentials.NewEnvAWS()})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := filepath.Glob("../../fixtures/recorded/*/" + rundir.VerdictFile)
	if err != nil {
		t.Fatal(err)
	}
	var small []map[string][]byte
	var names []string
	for _, verdict := range runs {
		files, size := map[string][]byte{}, 0
		found, err := filepath.Glob(filepath.Join(filepath.Dir(verdict), "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(f)], size = data, size+len(data)
		}
		if size < 100<<10 {
			small, names = append(small, files), append(names, filepath.Base(filepath.Dir(verdict)))
		}
	}
	if len(small) < 5 {
		t.Fatalf("%d recorded runs are small", len(small))
	}
	all, ctx := errgroup.WithContext(t.Context())
	all.SetLimit(16)
	for i := range savedRuns {
		k := i % len(small)
		for name, data := range small[k] {
			if name == rundir.VerdictFile && i%500 == 0 { // Then it had another verdict.
				changed++
				pass := []byte(`"verdict": "` + check.Pass) // The last: the first may be the run's own.
				at := bytes.LastIndex(data, pass)
				if at < 0 {
					t.Fatalf("%s has no check that passes", names[k])
				}
				data = slices.Concat(data[:at], []byte(`"verdict": "`+check.Unknown), data[at+len(pass):])
			}
			key := path.Join("seatrial", names[k], fmt.Sprintf("%05d", i), name)
			all.Go(func() error {
				_, err := client.PutObject(ctx, "nights", key, bytes.NewReader(data), int64(len(data)),
					minio.PutObjectOptions{})
				return err
			})
		}
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	return changed
}

// judging is a Job at work.
type judging struct {
	kube kubernetes.Interface
	job  batchv1.Job
}

// until waits until so many indexes have succeeded.
func (j judging) until(t *testing.T, succeeded int32) {
	t.Helper()
	err := await.Until(t.Context(), fmt.Sprintf("%d indexes that succeeded", succeeded), time.Second, 20*time.Minute,
		func(ctx context.Context) (bool, string, error) {
			job, err := j.kube.BatchV1().Jobs(j.job.Namespace).Get(ctx, j.job.Name, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			for _, c := range job.Status.Conditions {
				if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
					return false, "", await.Stop(fmt.Errorf("the Job failed: %s", c.Message))
				}
			}
			s := job.Status
			return s.Succeeded >= succeeded,
				fmt.Sprintf("%d succeeded, %d failed, %d active", s.Succeeded, s.Failed, s.Active), nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// pods waits until pods run, and returns them.
func (j judging) pods(t *testing.T) (running []corev1.Pod) {
	t.Helper()
	err := await.Until(t.Context(), "a pod of the Job that runs", 100*time.Millisecond, time.Minute,
		func(ctx context.Context) (bool, string, error) {
			list, err := j.kube.CoreV1().Pods(j.job.Namespace).List(ctx, metav1.ListOptions{
				LabelSelector: batchv1.JobNameLabel + "=" + j.job.Name, FieldSelector: "status.phase=Running",
			})
			if err != nil {
				return false, "", err
			}
			running = list.Items
			return len(running) > 0, "none runs", nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return running
}

// killPods kills half of the pods that run, and returns how many.
func (j judging) killPods(t *testing.T) (killed int) {
	t.Helper()
	for i, p := range j.pods(t) {
		if i%2 == 1 {
			continue
		}
		err := j.kube.CoreV1().Pods(p.Namespace).Delete(t.Context(), p.Name, *metav1.NewDeleteOptions(0))
		if err != nil {
			t.Fatal(err)
		}
		killed++
	}
	return killed
}

// reboot restarts the node of a pod that runs.
func (j judging) reboot(t *testing.T) {
	t.Helper()
	pods := j.pods(t)
	container(t, nil, "restart", "-t", "0", pods[rand.N(len(pods))].Spec.NodeName)
}
