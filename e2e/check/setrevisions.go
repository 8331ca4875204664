package check

import (
	appsv1 "k8s.io/api/apps/v1"

	"encoding/json"
	"strings"

	"github.com/seatrial/seatrial/e2e/world"
)

// revision is a ControllerRevision at one resourceVersion.
type revision struct {
	*world.Revision
	images   string // Of the containers of its template.
	ownerUID string
}

func (w *setWatch) addRevision(o *world.Revision) {
	r := &revision{Revision: o}
	owner := ""
	for _, ref := range o.Meta.OwnerReferences {
		owner, r.ownerUID = ref.Name, string(ref.UID)
	}
	var data struct {
		Spec appsv1.StatefulSetSpec `json:"spec"`
	}
	if len(o.Spec.Data.Raw) > 0 && json.Unmarshal(o.Spec.Data.Raw, &data) == nil {
		r.images = world.Images(data.Spec.Template.Spec.Containers)
	}
	key := world.Key(o.Event.Object.Namespace, owner)
	w.revisions[key] = append(w.revisions[key], r)
}

// newestRevision returns the name of the ControllerRevision with the highest number at a resourceVersion: that is the
// update revision as soon as it was made. It is empty where none was seen.
func (w *setWatch) newestRevision(set *setLife, version uint64) string {
	number, name := int64(-1), ""
	for _, r := range w.revisions[set.key()] {
		if r.Version > version {
			break
		}
		if r.Spec.Revision >= number {
			number, name = r.Spec.Revision, r.Name()
		}
	}
	return name
}

// imagesOf returns the images in the template of a revision, empty where they are not known.
func (w *setWatch) imagesOf(set *setLife, name string) string {
	for _, r := range w.revisions[set.key()] {
		if r.Name() == name && r.images != "" {
			return r.images
		}
	}
	return ""
}

// addDelete reads the events by which the StatefulSet controller says that it deleted a pod
// (pkg/controller/statefulset, recordPodEvent). Such an event proves whose deletion it was. That there is none
// proves nothing: events are limited.
func (w *setWatch) addDelete(o *world.Notice) {
	words := strings.Fields(o.Spec.Message)
	if !o.Deleted() && o.Spec.Reason == "SuccessfulDelete" && o.Spec.InvolvedObject.Kind == "StatefulSet" &&
		len(words) > 2 && strings.EqualFold(words[0], "delete") && words[1] == "Pod" {
		key := world.Key(o.Event.Object.Namespace, words[2])
		w.deletes[key] = append(w.deletes[key], o.Event.Span)
	}
}
