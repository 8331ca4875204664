package apileaks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
)

// MeshGroup and MeshVersion are those of Chaos Mesh's API.
const (
	MeshGroup   = "chaos-mesh.org"
	MeshVersion = "v1alpha1"
)

// MeshKinds are the resources of Chaos Mesh that a fault can be.
func MeshKinds() []string {
	return []string{"iochaos", "networkchaos", "podchaos", "stresschaos", "timechaos"}
}

// experiments lists the objects of Chaos Mesh that bear a label of ours; none where there is no Chaos Mesh.
func experiments(ctx context.Context, kube kubernetes.Interface) ([]history.Thing, error) {
	version := MeshGroup + "/" + MeshVersion
	served, err := kube.Discovery().ServerResourcesForGroupVersion(version)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the API server for %s: %w", version, err)
	}
	var all []history.Thing
	for _, r := range served.APIResources {
		if !slices.Contains(MeshKinds(), r.Name) {
			continue
		}
		data, err := kube.Discovery().RESTClient().Get().AbsPath("apis", MeshGroup, MeshVersion, r.Name).
			Param("labelSelector", undo.OwnerLabel).DoRaw(ctx)
		var list metav1.PartialObjectMetadataList
		if err == nil {
			err = json.Unmarshal(data, &list)
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.Name, err)
		}
		for _, o := range list.Items {
			owner, _ := undo.FromName(o.Labels[undo.OwnerLabel])
			name := fmt.Sprintf("%s %s/%s", r.Kind, o.Namespace, o.Name)
			t := history.Thing{Class: history.ThingExperiment, Name: name}
			if o.DeletionTimestamp != nil {
				t.Is = "being deleted"
			}
			all = append(all, by(owner, t))
		}
	}
	return all, nil
}
