package volumemanager

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/seatrial/seatrial/chaos/history"
)

// said is a part of the metrics of a kubelet of v1.37.0, shortened.
const said = `# TYPE storage_operation_duration_seconds histogram
storage_operation_duration_seconds_count{status="fail-unknown",volume_plugin="kubernetes.io/csi:disk.seatrial"} 3
storage_operation_duration_seconds_count{status="fail-unknown",volume_plugin="kubernetes.io/configmap"} 8
storage_operation_duration_seconds_count{status="success",volume_plugin="kubernetes.io/csi:disk.seatrial"} 9
storage_operation_duration_seconds_count{n="1",status="fail-unknown",volume_plugin="kubernetes.io/csi:disk.seatrial"} 1
# TYPE volume_manager_total_volumes gauge
volume_manager_total_volumes{plugin_name="kubernetes.io/configmap",state="actual_state_of_world"} 1
volume_manager_total_volumes{plugin_name="kubernetes.io/csi:disk.seatrial",state="actual_state_of_world"} 4
volume_manager_total_volumes{plugin_name="kubernetes.io/csi:disk.seatrial",state="desired_state_of_world"} 5
volume_manager_total_volumes{plugin_name="kubernetes.io/local-volume",state="actual_state_of_world"} 1
volume_manager_total_volumes{plugin_name="kubernetes.io/local-volume",state="desired_state_of_world"} 1
`

// heard keeps what was recorded.
type heard []history.VolumeManager

func (h *heard) Record(e history.Event) { *h = append(*h, *e.VolumeManager) }

func TestAsk(t *testing.T) {
	answer, code := said, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes/w/proxy/metrics" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(code)
		if _, err := w.Write([]byte(answer)); err != nil {
			t.Errorf("answer: %v", err)
		}
	}))
	defer server.Close()
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	const csi, local = "kubernetes.io/csi:disk.seatrial", "kubernetes.io/local-volume"
	disk := history.VolumeManager{Node: "w", Plugin: csi, Desired: 5, Actual: 4, Failed: 4}
	one := history.VolumeManager{Node: "w", Plugin: local, Desired: 1, Actual: 1}
	known := map[string]history.VolumeManager{}
	for _, c := range []struct {
		name, answer string
		code         int
		want         heard
		failed       bool // One fact with an error.
	}{
		{"at first", said, http.StatusOK, heard{disk, one}, false},
		{"the same again", said, http.StatusOK, nil, false},
		{"the API server is away", "no", http.StatusServiceUnavailable, nil, true},
		{"it still is", "no", http.StatusServiceUnavailable, nil, false},
		{"it is back", said, http.StatusOK, heard{disk, one}, false},
		{"no volumes, and a kubelet that is new", "up 1\n", http.StatusOK, heard{{Node: "w", Plugin: csi},
			{Node: "w", Plugin: local}}, false},
		{"no text of metrics", "}\n", http.StatusOK, nil, true},
	} {
		var got heard
		answer, code = c.answer, c.code
		ask(t.Context(), kube, "w", known, &got)
		if c.failed && len(got) == 1 && got[0].Error != "" && got[0].Node == "w" {
			continue
		}
		if d := cmp.Diff(c.want, got); d != "" || c.failed {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}
