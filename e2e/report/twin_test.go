package report_test

import (
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/e2e/certify/twin"
	"github.com/seatrial/seatrial/e2e/report"
)

// TestWriteTwin: nothing that came from a cluster moves the cursor, and commands stay in one line.
func TestWriteTwin(t *testing.T) {
	command := "seatrial certify run --cluster " + strings.Repeat("long", 30)
	var out strings.Builder
	err := report.WriteTwin(&out, "Twin a of b", twin.Twin{
		Scaled:  []string{"version: v1.36.3 (there: v1.36.1)"},
		Flags:   map[string]map[string]string{"kube-apiserver": {"feature-gates": "A=true"}},
		Kubelet: map[string]any{"maxPods": 1},
		Budgets: []policyv1.PodDisruptionBudget{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}},
		Left:    []twin.Left{{What: "image \x1b[2J", Why: "another program"}},
	}, []string{"kubeconfig: /k", command})
	if err != nil {
		t.Fatal(err)
	}
	want := "Twin a of b\n  version: v1.36.3 (there: v1.36.1)\n\nCOPIED\n  kube-apiserver: --feature-gates=A=true\n" +
		"  kubelets: maxPods\n  PodDisruptionBudget shop/db\n\nNOT COPIED\n  - image "
	end := "\nkubeconfig: /k\n" + command + "\n"
	if got := out.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, end) ||
		strings.Contains(got, "\x1b") {
		t.Errorf("%s", got)
	}
}
