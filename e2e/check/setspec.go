package check

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// cacheLag is how old the state that a controller acted on may be before it is held against it: controllers read from a
// cache that a watch keeps, so a pod that lost its readiness a moment ago may still count as ready.
const cacheLag = 2 * time.Second

// mostOrdinals bounds how many ordinals of one StatefulSet are looked at: a number in a damaged history is not to
// keep a judge busy for ever.
const mostOrdinals = 4096

// stampSlack is by how much two times that two machines stamped may differ from the truth, beside that they are cut off
// to the second. On kind all nodes have one clock; elsewhere they are kept by NTP.
const stampSlack = 2 * time.Second

// setState is a StatefulSet at one resourceVersion: what is demanded, and what its controller says there is. Values
// that the API server would have filled in are its defaults (k8s.io/api apps/v1, StatefulSetSpec).
type setState struct {
	*setSpec
	event      *history.Event
	version    uint64
	uid        string
	deleted    bool
	deleting   bool // It has a deletionTimestamp, or is deleted.
	guessed    bool // It was missing in a list after a gap.
	generation int64

	observed                        int64 // status.observedGeneration.
	counts                          statusCounts
	currentRevision, updateRevision string
}

// setSpec is what a StatefulSet demands. States of one after another that demand the same share it.
type setSpec struct {
	setDemand
	templates []string // The names of the volumeClaimTemplates.
}

type setDemand struct {
	replicas, start, partition int
	unavailable                int  // maxUnavailable, or 1.
	limited                    bool // maxUnavailable is set: since 1.37 it always is.
	minReady                   int64
	historyLimit               int
	strategy                   string // Of updates: "RollingUpdate", "OnDelete" or another.
	parallel                   bool
	deleteScaled               bool // persistentVolumeClaimRetentionPolicy.whenScaled is Delete.
	deleteDeleted              bool // whenDeleted is.
	service                    string
}

// statusCounts are the numbers in a StatefulSet's status.
type statusCounts struct{ replicas, ready, available, current, updated int32 }

func (w *setWatch) addSet(e *history.Event, version uint64) bool {
	o := e.Object
	w.demand = setSpec{setDemand: setDemand{replicas: 1, unavailable: 1, historyLimit: 10, strategy: rollingUpdate}}
	st := &setState{setSpec: &w.demand, event: e, version: version, uid: o.UID, deleted: o.Verb == history.VerbDeleted}
	life := w.life(o.Namespace, o.Name)
	if st.deleted && len(o.Raw) == 0 {
		st.guessed = true
	} else if !st.read(o.Raw, w, life) {
		return false
	}
	st.deleting = st.deleting || st.deleted
	st.setSpec = life.share(&w.demand)
	life.sets = append(life.sets, st)
	return true
}

// share returns the demand of the last state where it is the same, so that it is kept once.
func (s *setLife) share(demand *setSpec) *setSpec {
	if n := len(s.sets); n > 0 {
		last := s.sets[n-1].setSpec
		if last.setDemand == demand.setDemand && slices.Equal(last.templates, demand.templates) {
			return last
		}
	}
	kept := *demand
	return &kept
}

// The strategies of updates.
const (
	rollingUpdate = "RollingUpdate"
	onDelete      = "OnDelete"
)

func (st *setState) read(raw []byte, w *setWatch, life *setLife) bool {
	s := &scan{text: raw}
	s.object(func(name []byte) {
		switch string(name) {
		case "metadata":
			s.object(func(name []byte) {
				switch string(name) {
				case "creationTimestamp":
					if stamp := s.seconds(); st.event.Object.Verb == history.VerbAdded {
						w.wall.add(stamp, st.event.Span)
					}
				case "deletionTimestamp":
					st.deleting = s.str(w.names) != ""
				case "generation":
					st.generation = s.num()
				default:
					s.same(name, st.event.Object)
				}
			})
		case "spec":
			st.readSpec(s, w.names, life)
		case "status":
			st.readStatus(s, w.names)
		}
	})
	return !s.bad && len(raw) > 0
}

func (st *setState) readSpec(s *scan, names interned, life *setLife) {
	unavailable := ""
	s.object(func(name []byte) {
		switch string(name) {
		case "minReadySeconds":
			st.minReady = s.num()
		case "ordinals":
			s.object(func(name []byte) {
				if string(name) == "start" {
					st.start = int(s.num())
				}
			})
		case "persistentVolumeClaimRetentionPolicy":
			s.object(func(name []byte) {
				switch string(name) {
				case "whenDeleted":
					st.deleteDeleted = s.str(names) == "Delete"
				case "whenScaled":
					st.deleteScaled = s.str(names) == "Delete"
				}
			})
		case "podManagementPolicy":
			st.parallel = s.str(names) == "Parallel"
		case "replicas":
			st.replicas = int(s.num())
		case "revisionHistoryLimit":
			st.historyLimit = int(s.num())
		case "serviceName":
			st.service = s.str(names)
		case "updateStrategy":
			unavailable = st.readStrategy(s, names)
		case "volumeClaimTemplates":
			if n := len(life.sets); n > 0 && life.sets[n-1].uid == st.uid && life.sets[n-1].templates != nil {
				st.templates = life.sets[n-1].templates // They never change.
				return
			}
			st.readTemplates(s, names)
		}
	})
	st.unavailable, st.limited = scaled(unavailable, st.replicas), unavailable != ""
}

func (st *setState) readStrategy(s *scan, names interned) (unavailable string) {
	s.object(func(name []byte) {
		switch string(name) {
		case "type":
			if t := s.str(names); t != "" {
				st.strategy = t
			}
		case "rollingUpdate":
			s.object(func(name []byte) {
				switch string(name) {
				case "partition":
					st.partition = int(s.num())
				case "maxUnavailable":
					if s.peek() == '"' {
						unavailable = s.str(names)
					} else {
						unavailable = strconv.FormatInt(s.num(), 10)
					}
				}
			})
		}
	})
	return unavailable
}

func (st *setState) readTemplates(s *scan, names interned) {
	s.array(func() {
		s.object(func(name []byte) {
			if string(name) != "metadata" {
				return
			}
			s.object(func(name []byte) {
				if string(name) == "name" {
					st.templates = append(st.templates, s.str(names))
				}
			})
		})
	})
}

func (st *setState) readStatus(s *scan, names interned) {
	s.object(func(name []byte) {
		switch string(name) {
		case "availableReplicas":
			st.counts.available = int32(s.num())
		case "currentReplicas":
			st.counts.current = int32(s.num())
		case "currentRevision":
			st.currentRevision = s.str(names)
		case "observedGeneration":
			st.observed = s.num()
		case "readyReplicas":
			st.counts.ready = int32(s.num())
		case "replicas":
			st.counts.replicas = int32(s.num())
		case "updateRevision":
			st.updateRevision = s.str(names)
		case "updatedReplicas":
			st.counts.updated = int32(s.num())
		}
	})
}

// scaled is pkg/controller/statefulset getStatefulSetMaxUnavailable: a part of the replicas is rounded down, and
// nothing is less than 1.
func scaled(value string, replicas int) int {
	part, percent := strings.CutSuffix(value, "%")
	n, err := strconv.Atoi(part)
	if err == nil && percent {
		n = n * replicas / 100
	}
	return max(n, 1)
}

// wants reports whether an ordinal is one of those that the StatefulSet is to have.
func (st *setState) wants(ordinal int) bool {
	return ordinal >= st.start && ordinal-st.start < st.replicas
}

// held reports whether an ordinal is below the partition: a pod of it is made at the current revision. The partition
// counts from the first ordinal (pkg/controller/statefulset, newVersionedStatefulSetPod).
func (st *setState) held(ordinal int) bool {
	return st.strategy == rollingUpdate && ordinal-st.start < st.partition
}

// at returns the StatefulSet in force at a resourceVersion, nil when it is not known.
func (s *setLife) at(version uint64) *setState {
	i := s.index(version)
	if i < 0 {
		return nil
	}
	return s.sets[i]
}

// index returns the place of the last state with that resourceVersion or a lower one, -1 where there is none.
func (s *setLife) index(version uint64) int {
	return sort.Search(len(s.sets), func(i int) bool { return s.sets[i].version > version }) - 1
}

// around returns the states that a controller may have acted on when it made the change of event, the newest first:
// that in force at its resourceVersion, and those in force at some time since long before it.
func (s *setLife) around(version uint64, since history.Time) []*setState {
	i := s.index(version)
	var states []*setState
	for ; i >= 0; i-- {
		if s.sets[i].guessed {
			continue
		}
		states = append(states, s.sets[i])
		if s.sets[i].event.Span.NotAfter < since {
			break
		}
	}
	return states
}

// updateRevisions returns the names that the update revision may have had for a controller that made a change: it makes
// a new one before it acts and writes it into the status after (pkg/controller/statefulset, performUpdate).
func (s *setLife) updateRevisions(w *setWatch, version uint64, at history.Span, since history.Time) []string {
	return s.revisionsFor(version, at, since, func(st *setState) string { return st.updateRevision },
		w.newestRevision(s, version))
}

// currentRevisions is updateRevisions for the current one.
func (s *setLife) currentRevisions(version uint64, at history.Span, since history.Time) []string {
	return s.revisionsFor(version, at, since, func(st *setState) string { return st.currentRevision }, "")
}

func (s *setLife) revisionsFor(
	version uint64, at history.Span, since history.Time, of func(*setState) string, more string,
) []string {
	names := []string{more}
	for _, st := range s.around(version, since) {
		names = append(names, of(st))
	}
	for i := s.index(version) + 1; i < len(s.sets); i++ {
		names = append(names, of(s.sets[i]))
		if s.sets[i].event.Span.NotBefore > at.NotAfter.Add(cacheLag) {
			break
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// every reports that all of the states are so; there is at least one.
func every(states []*setState, is func(*setState) bool) bool {
	return len(states) > 0 && !slices.ContainsFunc(states, func(st *setState) bool { return !is(st) })
}

// wanting returns those of the states that want an ordinal: a controller that made its pod acted on one of them.
func wanting(states []*setState, ordinal int) []*setState {
	return slices.DeleteFunc(slices.Clone(states), func(st *setState) bool { return !st.wants(ordinal) || st.deleting })
}
