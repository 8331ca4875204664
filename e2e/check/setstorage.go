package check

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/e2e/history"
)

// claimState is a PersistentVolumeClaim at one resourceVersion.
type claimState struct {
	event         *history.Event
	version       uint64
	uid           string
	deleting      bool // It has a deletionTimestamp, or is deleted.
	deleted       bool
	guessed       bool // It was missing in a list after a gap.
	volume, class string
	bound         bool
	size          int64 // Bytes asked for; 0 if not known.
	owners        []string
}

// volumeState is a PersistentVolume at one resourceVersion.
type volumeState struct {
	event            *history.Event
	version          uint64
	name, uid, class string
	deleted, guessed bool
	claim, claimUID  string // Whose it is: namespace/name and uid of a claim.
	size             int64
	reclaimDelete    bool
	phase, modes     string
	mode             string
	terms            [][]requirement // Of the nodes that can have it: one of the terms must hold.
}

// nodeState is a node at one resourceVersion.
type nodeState struct {
	event   *history.Event
	deleted bool
	labels  map[string]string
}

// requirement is one line of a node selector term.
type requirement struct {
	key, operator string
	values        []string
	field         bool // It is about a field of the node: its name.
}

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

func (w *setWatch) addClaim(e *history.Event, version uint64) bool {
	o := e.Object
	c := &claimState{event: e, version: version, uid: o.UID, deleted: o.Verb == history.VerbDeleted}
	c.guessed = c.deleted && len(o.Raw) == 0
	s := &scan{text: o.Raw}
	s.object(func(name []byte) {
		switch string(name) {
		case "metadata":
			s.object(func(name []byte) {
				switch string(name) {
				case "deletionTimestamp":
					c.deleting = s.peek() == '"'
				case "ownerReferences":
					s.array(func() {
						s.object(func(name []byte) {
							if string(name) == "uid" {
								c.owners = append(c.owners, s.str(w.names))
							}
						})
					})
				}
			})
		case "spec":
			s.object(func(name []byte) {
				switch string(name) {
				case "resources":
					c.size = readSize(s, "requests")
				case "storageClassName":
					c.class = s.str(w.names)
				case "volumeName":
					c.volume = s.str(w.names)
				}
			})
		case "status":
			s.object(func(name []byte) {
				if string(name) == "phase" {
					c.bound = s.str(w.names) == "Bound"
				}
			})
		}
	})
	c.deleting = c.deleting || c.deleted
	key := o.Namespace + "/" + o.Name
	w.claims[key] = append(w.claims[key], c)
	return c.guessed || !s.bad && len(o.Raw) > 0
}

// readSize reads the storage in an object of quantities, or in one of its members.
func readSize(s *scan, member string) (size int64) {
	s.object(func(name []byte) {
		switch {
		case member != "" && string(name) == member:
			size = readSize(s, "")
		case member == "" && string(name) == "storage":
			size = quantity(s.str(nil))
		}
	})
	return size
}

// quantity reads a whole number of bytes as the API writes it; 0 for what it cannot read.
func quantity(text string) int64 {
	units := []struct {
		suffix string
		factor int64
	}{
		{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50}, {"Ei", 1 << 60},
		{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18}, {"", 1},
	}
	for _, u := range units {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil || n < 0 || n > math.MaxInt64/u.factor {
				return 0
			}
			return n * u.factor
		}
	}
	return 0
}

func (w *setWatch) addVolume(e *history.Event, version uint64) bool {
	o := e.Object
	v := &volumeState{event: e, version: version, name: o.Name, uid: o.UID, deleted: o.Verb == history.VerbDeleted}
	v.guessed = v.deleted && len(o.Raw) == 0
	s := &scan{text: o.Raw}
	s.object(func(name []byte) {
		switch string(name) {
		case "spec":
			v.readSpec(s, w.names)
		case "status":
			s.object(func(name []byte) {
				if string(name) == "phase" {
					v.phase = s.str(w.names)
				}
			})
		}
	})
	w.volumes[o.Name] = append(w.volumes[o.Name], v)
	return v.guessed || !s.bad && len(o.Raw) > 0
}

func (v *volumeState) readSpec(s *scan, names interned) {
	s.object(func(name []byte) {
		switch string(name) {
		case "accessModes":
			s.array(func() { v.modes += s.str(names) + " " })
		case "capacity":
			v.size = readSize(s, "")
		case "claimRef":
			namespace, claim := "", ""
			s.object(func(name []byte) {
				switch string(name) {
				case "name":
					claim = s.str(names)
				case "namespace":
					namespace = s.str(names)
				case "uid":
					v.claimUID = s.str(names)
				}
			})
			v.claim = namespace + "/" + claim
		case "nodeAffinity":
			s.object(func(name []byte) {
				if string(name) == "required" {
					v.readTerms(s, names)
				}
			})
		case "persistentVolumeReclaimPolicy":
			v.reclaimDelete = s.str(names) == "Delete"
		case "storageClassName":
			v.class = s.str(names)
		case "volumeMode":
			v.mode = s.str(names)
		}
	})
}

func (v *volumeState) readTerms(s *scan, names interned) {
	s.object(func(name []byte) {
		if string(name) != "nodeSelectorTerms" {
			return
		}
		s.array(func() {
			term := []requirement{}
			s.object(func(name []byte) {
				field := string(name) == "matchFields"
				if !field && string(name) != "matchExpressions" {
					return
				}
				s.array(func() { term = append(term, readRequirement(s, names, field)) })
			})
			v.terms = append(v.terms, term)
		})
	})
}

func readRequirement(s *scan, names interned, field bool) requirement {
	r := requirement{field: field}
	s.object(func(name []byte) {
		switch string(name) {
		case "key":
			r.key = s.str(names)
		case "operator":
			r.operator = s.str(names)
		case "values":
			s.array(func() { r.values = append(r.values, s.str(names)) })
		}
	})
	return r
}

// fits reports whether a node meets a requirement (k8s.io/api core/v1, NodeSelectorRequirement); one that compares
// numbers is taken to be met.
func (r requirement) fits(node string, labels map[string]string) bool {
	value, there := labels[r.key]
	if r.field {
		value, there = node, true
	}
	switch r.operator {
	case "In":
		return there && slices.Contains(r.values, value)
	case "NotIn":
		return !there || !slices.Contains(r.values, value)
	case "Exists":
		return there
	case "DoesNotExist":
		return !there
	}
	return true
}

// allows reports whether a node of that name and with these labels can have the volume.
func (v *volumeState) allows(node string, labels map[string]string) bool {
	return len(v.terms) == 0 || slices.ContainsFunc(v.terms, func(term []requirement) bool {
		return len(term) > 0 &&
			!slices.ContainsFunc(term, func(r requirement) bool { return !r.fits(node, labels) })
	})
}

func (w *setWatch) addNode(e *history.Event, _ uint64) bool {
	n := &nodeState{event: e, deleted: e.Object.Verb == history.VerbDeleted}
	s := &scan{text: e.Object.Raw}
	if len(e.Object.Raw) > 0 {
		s.object(func(name []byte) {
			if string(name) != "metadata" {
				return
			}
			s.object(func(name []byte) {
				if string(name) != "labels" {
					return
				}
				n.labels = map[string]string{}
				s.object(func(name []byte) { n.labels[w.names.keep(name)] = s.str(w.names) })
			})
		})
	}
	w.nodes[e.Object.Name] = append(w.nodes[e.Object.Name], n)
	return !s.bad
}

// labelsOf returns the labels of a node, as they were last seen, false when none were.
func (w *setWatch) labelsOf(node string) (map[string]string, bool) {
	for _, n := range slices.Backward(w.nodes[node]) {
		if n.labels != nil {
			return n.labels, true
		}
	}
	return nil, false
}

// nodeGone returns when a node was deleted and did not come back, nil when that is not so.
func (w *setWatch) nodeGone(node string) *history.Event {
	all := w.nodes[node]
	if len(all) == 0 || !all[len(all)-1].deleted {
		return nil
	}
	return all[len(all)-1].event
}

func (w *setWatch) addClass(e *history.Event, _ uint64) bool {
	s := &scan{text: e.Object.Raw}
	s.object(func(name []byte) {
		if string(name) == "volumeBindingMode" {
			w.classes[e.Object.Name] = s.str(w.names) == "WaitForFirstConsumer"
		}
	})
	return true
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

// addDelete reads the events by which the StatefulSet controller says that it deleted a pod (pkg/controller/statefulset,
// recordPodEvent). Such an event proves whose deletion it was. That there is none proves nothing: events are limited.
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

// byController reports that the StatefulSet controller said that it deleted a pod, at about the time of its end. It
// says so after it did.
func (w *setWatch) byController(p *podState) bool {
	all := w.deletes[p.event.Object.Namespace+"/"+p.pod.name]
	asked := p.event.Span
	return slices.ContainsFunc(all, func(told history.Span) bool {
		return told.NotAfter >= asked.NotBefore && told.NotBefore <= asked.NotAfter.Add(eventLag)
	})
}
