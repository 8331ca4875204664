package apiwatch

import (
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/seatrial/seatrial/chaos/history"
)

// withImages is an object whose status names images, as a node's does.
func withImages() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "n", "uid": "u", "resourceVersion": "1", "managedFields": []any{}},
		"status": map[string]any{
			"images":       []any{map[string]any{"names": []any{"registry.example.com/secret:1"}}},
			"volumesInUse": []any{"kubernetes.io/csi/d^v"},
		},
	}}
}

func TestImagesOfNodesAreLeftOut(t *testing.T) {
	t.Parallel()
	for resource, stays := range map[string]bool{"nodes": false, "pods": true} {
		k := &kept{}
		s := newStream(resource, nil, "", &revisions{}, k, slog.New(slog.DiscardHandler))
		s.objects = map[string]name{}
		s.object(history.VerbModified, withImages(), history.At(1))
		if len(k.events) != 1 || k.events[0].Object == nil {
			t.Fatalf("%s: on record: %+v", resource, k.events)
		}
		raw := string(k.events[0].Object.Raw)
		if got := strings.Contains(raw, "registry.example.com"); got != stays {
			t.Errorf("%s: images on record %t, want %t: %s", resource, got, stays, raw)
		}
		if !strings.Contains(raw, "kubernetes.io/csi/d^v") || strings.Contains(raw, "managedFields") {
			t.Errorf("%s: on record: %s", resource, raw)
		}
	}
	bare := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}}}
	(&stream{name: "nodes"}).leaveOut(bare) // A node whose kubelet has not spoken yet.
	if len(bare.Object) != 1 {
		t.Errorf("without a status: %v", bare.Object)
	}
}
