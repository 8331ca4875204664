package check

import (
	"bytes"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// revision is a ControllerRevision at one resourceVersion.
type revision struct {
	event    *history.Event
	version  uint64
	name     string
	number   int64
	deleted  bool
	images   string // Of the containers of its template.
	ownerUID string
}

func (w *setWatch) addRevision(e *history.Event, version uint64) bool {
	o := e.Object
	r := &revision{event: e, version: version, name: o.Name, deleted: o.Verb == history.VerbDeleted}
	owner := ""
	s := &scan{text: o.Raw}
	s.object(func(name []byte) {
		switch string(name) {
		case "data":
			r.readData(s, w.names)
		case "metadata":
			s.object(func(name []byte) {
				if string(name) == "ownerReferences" {
					s.array(func() {
						s.object(func(name []byte) {
							switch string(name) {
							case "name":
								owner = s.str(w.names)
							case "uid":
								r.ownerUID = s.str(w.names)
							}
						})
					})
				}
			})
		case "revision":
			r.number = s.num()
		}
	})
	key := o.Namespace + "/" + owner
	w.revisions[key] = append(w.revisions[key], r)
	return r.deleted || !s.bad && len(o.Raw) > 0
}

// readData reads the images off the template that a revision holds.
func (r *revision) readData(s *scan, names interned) {
	into := func(member string, read func()) func([]byte) {
		return func(name []byte) {
			if string(name) == member {
				read()
			}
		}
	}
	s.object(into("spec", func() {
		s.object(into("template", func() {
			s.object(into("spec", func() {
				s.object(into("containers", func() { r.images = readImages(s, names) }))
			}))
		}))
	}))
}

// newestRevision returns the name of the ControllerRevision with the highest number at a resourceVersion: that is the
// update revision as soon as it was made. It is empty where none was seen.
func (w *setWatch) newestRevision(set *setLife, version uint64) string {
	number, name := int64(-1), ""
	for _, r := range w.revisions[set.key()] {
		if r.version > version {
			break
		}
		if r.number >= number {
			number, name = r.number, r.name
		}
	}
	return name
}

// imagesOf returns the images in the template of a revision, empty where they are not known.
func (w *setWatch) imagesOf(set *setLife, name string) string {
	for _, r := range w.revisions[set.key()] {
		if r.name == name && r.images != "" {
			return r.images
		}
	}
	return ""
}

// addDelete reads the events by which the StatefulSet controller says that it deleted a pod
// (pkg/controller/statefulset, recordPodEvent). Such an event proves whose deletion it was. That there is none
// proves nothing: events are limited.
func (w *setWatch) addDelete(e *history.Event, _ uint64) bool {
	o := e.Object
	if o.Verb == history.VerbDeleted || !bytes.Contains(o.Raw, []byte(`"SuccessfulDelete"`)) {
		return true
	}
	kind, message := "", ""
	s := &scan{text: o.Raw}
	s.object(func(name []byte) {
		switch string(name) {
		case "involvedObject":
			s.object(func(name []byte) {
				if string(name) == "kind" {
					kind = s.str(w.names)
				}
			})
		case "message":
			message = s.str(w.names)
		}
	})
	words := strings.Fields(message)
	if kind == "StatefulSet" && len(words) > 2 && strings.EqualFold(words[0], "delete") && words[1] == "Pod" {
		key := o.Namespace + "/" + words[2]
		w.deletes[key] = append(w.deletes[key], e.Span)
	}
	return true
}
