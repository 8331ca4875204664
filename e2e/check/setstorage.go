package check

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
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
	selects       bool  // It has a selector.
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
				default:
					s.same(name, o)
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
				case "selector":
					c.selects = s.peek() == '{'
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
		case "metadata":
			s.object(func(name []byte) { s.same(name, o) })
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
