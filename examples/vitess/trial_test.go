// Package vitess_test runs the example on a kind cluster, as README.md says. Vitess is built first, which takes
// minutes:
//
//	SEATRIAL_LONG=1 go test -timeout 1h ./examples/vitess
package vitess_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/e2e/trialtest"
	"github.com/seatrial/seatrial/examples/hostpath"
)

const (
	class    = "vitess-example"
	scenario = "topology-semisync-primary-crashed"
)

func TestTrial(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") == "" {
		t.Skip("NOT RUN: needs a cluster: make long")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "seatrial")
	run(t, "", "", "go", "build", "-o", program, "../../tools/seatrial")
	c, err := trialtest.Open(t.Context(), trialtest.Options{
		Scenarios: []string{scenario}, Workload: fill(t, dir, program), Seed: 5, Cluster: os.Getenv("SEATRIAL_CLUSTER"),
		Runs: filepath.Join(dir, "runs"), Progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	config, err := c.ClientConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	base, image := filepath.Join(dir, "mysql.tar"), filepath.Join(dir, "vitess.tar")
	for i, n := range nodes.Items {
		if i == 0 { // Every node has the image of MySQL.
			on(t, "", base, n.Name, "sh", "-c", "ctr -n k8s.io images export --platform linux/$(dpkg "+
				"--print-architecture) - $(ctr -n k8s.io images ls -q name~=localhost/seatrial/mysql)")
			run(t, "", "", "go", "run", "./image", base, image)
		}
		on(t, image, "", n.Name, "ctr", "-n", "k8s.io", "images", "import", "-")
		on(t, "", "", n.Name, "install", "-d", "-o", "999", "-g", "999", hostpath.Dir(class, 0))
	}
	if err := hostpath.Make(t.Context(), config, class, 1, "1Gi"); err != nil {
		t.Fatal(err)
	}
	result, err := c.Run(t.Context(), scenario)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(result.Text)
	if err := result.Err(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(result.Text, "after the last acknowledgement of vt-0") {
		t.Error("VTOrc replaced nobody")
	}
}

// fill writes the files of the example with what README.md has the user fill in, and returns the workload file.
func fill(t *testing.T, dir, program string) string {
	t.Helper()
	etcd := ""
	for _, r := range offline.Releases() {
		if r.Kubernetes == offline.DefaultKubernetesVersion {
			etcd = "registry.k8s.io/etcd:" + r.Etcd
		}
	}
	change := strings.NewReplacer("seatrial, data-client", program+", data-client", "storageClassName: CLASS",
		"storageClassName: "+class, "image: ETCD", "image: "+etcd)
	for _, name := range []string{"vitess.yaml", "workload.yaml"} {
		text, err := os.ReadFile(name)
		if err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(change.Replace(string(text))),
			0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "workload.yaml")
}

// on runs a command on a node, its standard input and output files unless empty.
func on(t *testing.T, in, out, node string, command ...string) {
	t.Helper()
	engine := cmp.Or(os.Getenv("SEATRIAL_ENGINE"), "docker")
	run(t, in, out, append([]string{engine, "exec", "-i", node}, command...)...)
}

func run(t *testing.T, in, out string, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if in != "" {
		f, err := os.Open(in)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.Stdin = f
	}
	if out != "" {
		f, err := os.Create(out)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.Stdout = f
	}
	if err := cmd.Run(); err != nil {
		t.Fatal(fmt.Errorf("%q: %w: %s", command, err, said.String()))
	}
}
