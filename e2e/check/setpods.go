package check

import (
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// podState is one pod at one resourceVersion.
type podState struct {
	event      *history.Event
	version    uint64
	pod        *podLife
	revision   string // The label controller-revision-hash.
	images     string // Of its containers, in order.
	node       string
	turned     int64          // When its readiness last changed, by the clock of its node; 0 if unknown.
	readySince int64          // When it became Ready, by the clock of its node, in seconds since 1970; 0 if unknown.
	endAsked   int64          // When its end was asked for, by the clock of the API server; 0 if unknown.
	lost       *history.Event // Since when it has not been Running and Ready, having been so; nil when it never was.
	running    bool
	ready      bool
	over       bool // It has succeeded or failed: no container of it runs any more.
	deleting   bool // It has a deletionTimestamp, or is deleted.
	deleted    bool
	guessed    bool // It was missing in a list after a gap: that it was deleted is all there is to know.
	disrupted  bool // Something other than the StatefulSet asked for its end.
}

// podLife is one pod, told by its uid, from its creation to its end. What never changes in a pod is kept here.
type podLife struct {
	set                 *setLife
	name, uid           string
	ordinal             int
	owned               bool // A StatefulSet of that name is its controller.
	foreign             bool // Something else is.
	created             int64
	hostname, subdomain string
	labelled, index     string // statefulset.kubernetes.io/pod-name and apps.kubernetes.io/pod-index.
	claims              []podClaim
	fixed               bool // It was read once: what is set at creation is known.
	states              []*podState
	first, asked, end   *podState // Where it was first seen, where its end was asked for, where it was gone.
}

// podClaim is a volume of a pod that is a claim.
type podClaim struct{ volume, claim string }

// ordinalOf takes the name of a StatefulSet's pod apart (pkg/controller/statefulset, getParentNameAndOrdinal).
func ordinalOf(pod string) (set string, ordinal int, ok bool) {
	i := strings.LastIndexByte(pod, '-')
	if i < 0 {
		return "", 0, false
	}
	ordinal, err := strconv.Atoi(pod[i+1:])
	return pod[:i], ordinal, err == nil && ordinal >= 0 && strconv.Itoa(ordinal) == pod[i+1:]
}

func (w *setWatch) addPod(e *history.Event, version uint64) bool {
	o := e.Object
	set, ordinal, ok := ordinalOf(o.Name)
	if !ok {
		w.noteUser(e, version)
		return true
	}
	guessed := o.Verb == history.VerbDeleted && len(o.Raw) == 0
	life := w.life(o.Namespace, set)
	p := life.lives[o.UID]
	fresh := p == nil
	if fresh {
		p = &podLife{set: life, name: o.Name, uid: o.UID, ordinal: ordinal}
	}
	st := w.newPod()
	*st = podState{event: e, version: version, pod: p, guessed: guessed, deleted: o.Verb == history.VerbDeleted}
	if !guessed && !st.read(o.Raw, w) {
		return false
	}
	if p.name != o.Name {
		return false // A uid is one pod's for ever.
	}
	p.fixed = !guessed
	if p.foreign {
		w.noteUses(p, o.Namespace)
		return true
	}
	st.deleting = st.deleting || st.deleted
	if fresh {
		life.lives[o.UID] = p
	}
	life.pods = append(life.pods, st)
	return true
}

// noteUser remembers which claims a pod uses that has no StatefulSet's name.
func (w *setWatch) noteUser(e *history.Event, version uint64) {
	st := &podState{event: e, version: version, pod: &podLife{set: &setLife{}}}
	if st.read(e.Object.Raw, w) {
		w.noteUses(st.pod, e.Object.Namespace)
		w.noteTwin(st)
	}
}

func (w *setWatch) noteUses(p *podLife, namespace string) {
	for _, c := range p.claims {
		w.users[namespace+"/"+c.claim] = true
	}
}

// newPod returns room for one state; rooms are made many at a time.
func (w *setWatch) newPod() *podState {
	if len(w.pool) == 0 {
		w.pool = make([]podState, 512)
	}
	st := &w.pool[0]
	w.pool = w.pool[1:]
	return st
}

func (p *podState) read(raw []byte, w *setWatch) bool {
	s := &scan{text: raw}
	s.object(func(name []byte) {
		switch string(name) {
		case "metadata":
			p.readMetadata(s, w)
		case "spec":
			p.readSpec(s, w.names)
		case "status":
			p.readStatus(s, w.names)
		}
	})
	return !s.bad && len(raw) > 0
}

func (p *podState) readMetadata(s *scan, w *setWatch) {
	life, ending, grace := p.pod, int64(0), int64(0)
	s.object(func(name []byte) {
		switch string(name) {
		case "creationTimestamp":
			if !life.fixed {
				life.created = s.seconds()
			}
			if p.event.Object.Verb == history.VerbAdded {
				w.wall.add(life.created, p.event.Span)
			}
		case "deletionGracePeriodSeconds":
			grace = s.num()
		case "deletionTimestamp":
			p.deleting = s.peek() == '"'
			ending = s.seconds()
		case "labels":
			s.object(func(name []byte) {
				switch string(name) {
				case "controller-revision-hash":
					p.revision = s.str(w.names)
				case "statefulset.kubernetes.io/pod-name":
					life.once(&life.labelled, s, w.names)
				case "apps.kubernetes.io/pod-index":
					life.once(&life.index, s, w.names)
				}
			})
		case "ownerReferences":
			life.readOwners(s, w.names)
		default:
			s.same(name, p.event.Object)
		}
	})
	if ending != 0 {
		p.endAsked = ending - grace
	}
}

// once reads a string that is kept as it was first seen.
func (p *podLife) once(into *string, s *scan, names interned) {
	if !p.fixed {
		*into = s.str(names)
	}
}

func (p *podLife) readOwners(s *scan, names interned) {
	s.array(func() {
		kind, owner, controls := "", "", false
		s.object(func(name []byte) {
			switch string(name) {
			case "controller":
				controls = s.yes()
			case "kind":
				kind = s.str(names)
			case "name":
				owner = s.str(names)
			}
		})
		if controls {
			p.owned = kind == "StatefulSet" && owner == p.set.name
			p.foreign = !p.owned
		}
	})
}

func (p *podState) readSpec(s *scan, names interned) {
	life := p.pod
	s.object(func(name []byte) {
		switch string(name) {
		case "containers":
			p.images = readImages(s, names)
		case "hostname":
			life.once(&life.hostname, s, names)
		case "nodeName":
			p.node = s.str(names)
		case "subdomain":
			life.once(&life.subdomain, s, names)
		case "volumes":
			if life.fixed {
				return
			}
			s.array(func() {
				c := readClaim(s, names)
				if c.claim != "" {
					life.claims = append(life.claims, c)
				}
			})
		}
	})
}

// readClaim reads one of a pod's volumes; the claim is empty where it is none.
func readClaim(s *scan, names interned) (c podClaim) {
	s.object(func(name []byte) {
		switch string(name) {
		case "name":
			c.volume = s.str(names)
		case "persistentVolumeClaim":
			s.object(func(name []byte) {
				if string(name) == "claimName" {
					c.claim = s.str(names)
				}
			})
		}
	})
	return c
}

// readImages returns the images of containers, in order.
func readImages(s *scan, names interned) string {
	images := ""
	s.array(func() {
		s.object(func(name []byte) {
			switch {
			case string(name) != "image":
			case images == "":
				images = s.str(names)
			default:
				images += " " + s.str(names)
			}
		})
	})
	return images
}

func (p *podState) readStatus(s *scan, names interned) {
	s.object(func(name []byte) {
		switch string(name) {
		case "phase":
			switch s.str(names) {
			case "Running":
				p.running = true
			case "Succeeded", "Failed":
				p.over = true
			}
		case "conditions":
			s.array(func() {
				kind, yes, since := "", false, int64(0)
				s.object(func(name []byte) {
					switch string(name) {
					case "lastTransitionTime":
						since = s.seconds()
					case "status":
						yes = s.str(names) == "True"
					case "type":
						kind = s.str(names)
					}
				})
				if kind == "Ready" {
					p.turned = since
				}
				switch {
				case kind == "Ready" && yes:
					p.ready, p.readySince = true, since
				case kind == "DisruptionTarget" && yes:
					p.disrupted = true
				}
			})
		}
	})
}

// connect tells each pod's states from each other, now that they are in order.
func (s *setLife) connect() {
	for _, p := range s.pods {
		l := p.pod
		var old *podState
		if n := len(l.states); n > 0 {
			old = l.states[n-1]
		}
		switch {
		case old == nil:
			l.first = p
			s.order = append(s.order, l)
			s.byOrdinal[l.ordinal] = append(s.byOrdinal[l.ordinal], l)
		case !p.ok():
			p.lost = old.lost
			if old.ok() {
				p.lost = p.event
			}
		}
		if p.deleting && l.asked == nil {
			l.asked = p
		}
		if p.deleted && l.end == nil {
			l.end = p
		}
		l.states = append(l.states, p)
	}
}
