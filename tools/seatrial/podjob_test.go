package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trialtest"
)

// podScenario is what is tried in a pod and outside of it.
const podScenario = "set-scale-light"

// TestTrialInAPod has examples/job/trials.yaml carry out a trial in a pod, on a kind cluster within a kind cluster. The
// first pod is killed in the middle of it. In the second, each check says what it says outside, and neither leaves
// anything on its node.
func TestTrialInAPod(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") == "" {
		t.Skip("NOT RUN: needs a cluster: make long")
	}
	dir := t.TempDir()
	const program = "../../bin/seatrial"
	list, err := exec.CommandContext(t.Context(), program, "nightly", "--list", "-o", "json", "--label-filter",
		podScenario).Output()
	var all struct {
		Units []struct {
			Seed uint64 `json:"seed"`
		} `json:"units"`
	}
	if err = errors.Join(err, json.Unmarshal(list, &all)); err != nil || len(all.Units) != 1 {
		t.Fatalf("the list of a night: %v\n%s", err, list)
	}
	c, kube := jobCluster(t, trialtest.Options{
		Scenarios: []string{podScenario}, Seed: all.Units[0].Seed, Runs: filepath.Join(dir, "runs")})
	outside, err := c.Run(t.Context(), podScenario)
	if err != nil {
		t.Fatal(err)
	}
	workers, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{
		LabelSelector: "!node-role.kubernetes.io/control-plane"})
	if err != nil || len(workers.Items) == 0 {
		t.Fatalf("%d workers (%v)", len(workers.Items), err)
	}
	node := workers.Items[0].Name
	const tag = "localhost/seatrial/trials:test"
	importInto(t, node, nightImage(t, dir, tag))
	s := s3At(t, gateway(t))

	text, err := os.ReadFile("../../examples/job/trials.yaml")
	if err != nil {
		t.Fatal(err)
	}
	filled := strings.NewReplacer("image: IMAGE", "image: "+tag, "=STORE", "=http://"+s.at, "job/64", "job/1",
		"--budget 2h", "--budget 6m --label-filter "+podScenario).Replace(string(text))
	var job batchv1.Job
	if err := yaml.UnmarshalStrict([]byte(filled), &job); err != nil {
		t.Fatal(err)
	}
	job.Namespace, job.Spec.Completions = metav1.NamespaceDefault, new(int32(1))
	job.Spec.Template.Spec.NodeName = node
	nightsSecret(t, kube, job.Namespace)
	before := onNode(t, node)
	begin := time.Now()
	if _, err := kube.BatchV1().Jobs(job.Namespace).Create(t.Context(), &job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	killInTheMiddle(t, kube, job, node)
	judging{kube, job}.until(t, 1)
	t.Logf("the Job: %s", time.Since(begin).Round(time.Second))
	in := s.verdicts(t)
	if len(in) == 0 {
		t.Fatal("the pod stored no run")
	}
	for key, verdict := range in {
		if want := outside.Report; verdict.Verdict != want.Verdict || !maps.Equal(byCheck(verdict), byCheck(want)) {
			t.Errorf("%s: %s, %v, and outside of a pod: %s, %v", key, verdict.Verdict, byCheck(verdict), want.Verdict,
				byCheck(want))
		}
	}

	gone := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}
	err = kube.BatchV1().Jobs(job.Namespace).Delete(t.Context(), job.Name, gone)
	if err != nil {
		t.Fatal(err)
	}
	err = await.Until(t.Context(), "the node to be as it was before the Job", time.Second, 2*time.Minute,
		func(context.Context) (bool, string, error) {
			after := onNode(t, node)
			return slices.Equal(after, before), fmt.Sprintf("%q, before: %q", after, before), nil
		})
	if err != nil {
		t.Error(err)
	}
}

// killInTheMiddle kills the first pod of a Job, without a word to its processes, once its trial has volumes.
func killInTheMiddle(t *testing.T, kube kubernetes.Interface, job batchv1.Job, node string) {
	t.Helper()
	err := await.Until(t.Context(), "a volume of the trial in the pod", time.Second, 10*time.Minute,
		func(context.Context) (bool, string, error) {
			on := onNode(t, node)
			return slices.ContainsFunc(on, func(line string) bool { return strings.Contains(line, ofThePod) }),
				fmt.Sprintf("%q", on), nil
		})
	if err != nil {
		t.Fatal(err)
	}
	err = kube.CoreV1().Pods(job.Namespace).DeleteCollection(t.Context(),
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))},
		metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name})
	if err != nil {
		t.Fatal(err)
	}
}

func byCheck(r check.Report) map[string]check.Verdict {
	all := map[string]check.Verdict{}
	for _, result := range r.Results {
		all[result.Check] = result.Verdict
	}
	return all
}

// nightImage builds the image of examples/job/Dockerfile from Debian packages, and returns an archive of it.
func nightImage(t *testing.T, dir, tag string) string {
	t.Helper()
	command := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v: %s", name, args, err, out)
		}
	}
	const base = "localhost/seatrial/trials-base:test"
	archive, from := filepath.Join(dir, "image.tar"), filepath.Join(dir, "context")
	root := filepath.Join(dir, "root.tar")
	command("mmdebstrap", "--variant=minbase", "--include=ca-certificates,docker.io,iptables,kmod,procps", "bookworm",
		root)
	container(t, nil, "import", root, base)
	if err := os.CopyFS(filepath.Join(from, "bin"), os.DirFS("../../bin")); err != nil {
		t.Fatal(err)
	}
	command("../../bin/seatrial", "setup", "--save", filepath.Join(from, "images.tar"))
	dockerfile, err := filepath.Abs("../../examples/job/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	container(t, nil, "build", "--build-arg", "BASE="+base, "-f", dockerfile, "-t", tag, from)
	t.Cleanup(func() {
		remove := exec.CommandContext(context.WithoutCancel(t.Context()), engine(), "rmi", "--force", tag, base)
		if out, err := remove.CombinedOutput(); err != nil {
			t.Errorf("%q: %v: %s", remove.Args, err, out)
		}
	})
	container(t, nil, "save", "-o", archive, tag)
	return archive
}

// importInto gives a node an image.
func importInto(t *testing.T, node, archive string) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // It was only read.
	container(t, file, "exec", "-i", node, "ctr", "-n", "k8s.io", "images", "import", "-")
}

// ofThePod is in the path of each volume of the cluster that the pod makes.
const ofThePod = "seatrial-0-"

// onNode returns what a trial of the Job could leave on a node: containers, loop devices and mounts. Loop devices of
// other clusters are seen there too.
func onNode(t *testing.T, node string) []string {
	t.Helper()
	out := container(t, nil, "exec", node, "sh", "-c", `ctr -n k8s.io containers list -q 2>/dev/null | sort
		losetup --list --noheadings --output NAME,BACK-FILE | grep -e `+ofThePod+` -e '(deleted)'
		cut -d ' ' -f 5 /proc/1/mountinfo | sort`)
	return strings.Split(out, "\n")
}

// verdicts returns the verdicts of the runs in the store, by key.
func (s *s3) verdicts(t *testing.T) map[string]check.Report {
	t.Helper()
	client, err := minio.New(s.at, &minio.Options{Creds: credentials.NewEnvAWS()})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]check.Report{}
	for object := range client.ListObjects(t.Context(), "nights", minio.ListObjectsOptions{Recursive: true}) {
		if object.Err != nil {
			t.Fatal(object.Err)
		}
		if path.Base(object.Key) != rundir.VerdictFile {
			continue
		}
		body, err := client.GetObject(t.Context(), "nights", object.Key, minio.GetObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		_, err = text.ReadFrom(body)
		var report check.Report
		if err = errors.Join(err, body.Close(), json.Unmarshal(text.Bytes(), &report)); err != nil {
			t.Fatalf("%s: %v", object.Key, err)
		}
		found[object.Key] = report
	}
	return found
}

// nightsSecret gives the pods of a Job the credentials of the store.
func nightsSecret(t *testing.T, kube kubernetes.Interface, namespace string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "nights", Namespace: namespace},
		StringData: map[string]string{
			"AWS_ACCESS_KEY_ID":     os.Getenv("AWS_ACCESS_KEY_ID"),
			"AWS_SECRET_ACCESS_KEY": os.Getenv("AWS_SECRET_ACCESS_KEY"),
		}}
	if _, err := kube.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
