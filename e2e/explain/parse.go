package explain

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// stamp is a time of the API; what is none reads as the zero time.
type stamp struct{ time.Time }

// UnmarshalJSON never fails: a time that makes no sense is not known.
func (s *stamp) UnmarshalJSON(data []byte) error {
	if at, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(data)); err == nil {
		s.Time = at
	}
	return nil
}

func (s stamp) seconds() int64 {
	if s.IsZero() {
		return 0
	}
	return s.Unix()
}

type metaJSON struct {
	CreationTimestamp          stamp             `json:"creationTimestamp"`
	DeletionTimestamp          *stamp            `json:"deletionTimestamp"`
	DeletionGracePeriodSeconds int64             `json:"deletionGracePeriodSeconds"`
	Generation                 int64             `json:"generation"`
	Labels                     map[string]string `json:"labels"`
	Finalizers                 []string          `json:"finalizers"`
	OwnerReferences            []struct {
		Kind       string `json:"kind"`
		Name       string `json:"name"`
		UID        string `json:"uid"`
		Controller bool   `json:"controller"`
	} `json:"ownerReferences"`
}

type conditionJSON struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	LastTransitionTime stamp  `json:"lastTransitionTime"`
}

type setJSON struct {
	Metadata metaJSON `json:"metadata"`
	Spec     struct {
		Replicas *int32 `json:"replicas"`
		MinReady int64  `json:"minReadySeconds"`
		Ordinals struct {
			Start int32 `json:"start"`
		} `json:"ordinals"`
		PodManagementPolicy string `json:"podManagementPolicy"`
		UpdateStrategy      struct {
			Type          string `json:"type"`
			RollingUpdate struct {
				Partition      int32           `json:"partition"`
				MaxUnavailable json.RawMessage `json:"maxUnavailable"`
			} `json:"rollingUpdate"`
		} `json:"updateStrategy"`
		Retention struct {
			WhenScaled string `json:"whenScaled"`
		} `json:"persistentVolumeClaimRetentionPolicy"`
		Templates []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"volumeClaimTemplates"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64  `json:"observedGeneration"`
		CurrentRevision    string `json:"currentRevision"`
		UpdateRevision     string `json:"updateRevision"`
	} `json:"status"`
}

// mostOrdinals bounds how many ordinals are looked at: a number in a damaged history keeps nobody busy for ever.
const mostOrdinals = 4096

// set is a StatefulSet. What the API server would have filled in has its default (k8s.io/api apps/v1).
type set struct {
	head
	replicas, start, partition int
	unavailable                int  // maxUnavailable, or 1.
	limited                    bool // maxUnavailable is set: the feature is on, as it is since Kubernetes 1.37.
	minReady                   int64
	strategy                   string
	parallel, deleteScaled     bool
	templates                  []string
	deleting                   bool
	generation, observed       int64
	current, update            string
	changed                    Moment // Its generation.
}

// readSet reads a StatefulSet; old is the state before.
func readSet(old *set, o *Objects, h head, raw []byte) *set {
	var j setJSON
	if json.Unmarshal(raw, &j) != nil {
		return nil
	}
	s := &set{head: h, replicas: 1, start: int(j.Spec.Ordinals.Start), minReady: j.Spec.MinReady,
		partition: int(j.Spec.UpdateStrategy.RollingUpdate.Partition), strategy: j.Spec.UpdateStrategy.Type,
		parallel: j.Spec.PodManagementPolicy == "Parallel", deleteScaled: j.Spec.Retention.WhenScaled == "Delete",
		deleting: j.Metadata.DeletionTimestamp != nil, generation: j.Metadata.Generation,
		observed: j.Status.ObservedGeneration, current: j.Status.CurrentRevision, update: j.Status.UpdateRevision}
	s.created = j.Metadata.CreationTimestamp.seconds()
	if j.Spec.Replicas != nil {
		s.replicas = int(*j.Spec.Replicas)
	}
	s.replicas = max(0, min(s.replicas, mostOrdinals))
	if s.strategy == "" {
		s.strategy = rollingUpdate
	}
	s.unavailable, s.limited = readUnavailable(j.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, s.replicas)
	for _, t := range j.Spec.Templates {
		s.templates = append(s.templates, t.Metadata.Name)
	}
	if s.changed = h.seen; old != nil && old.generation == s.generation {
		s.changed = old.changed
	}
	if o.Live {
		s.changed = Moment{}
	}
	return s
}

// The strategies of updates.
const (
	rollingUpdate = "RollingUpdate"
	recreate      = "Recreate"
)

// readUnavailable is getStatefulSetMaxUnavailable of the controller: a part of the replicas is rounded down, and
// nothing is less than 1.
func readUnavailable(raw json.RawMessage, replicas int) (most int, set bool) {
	text := strings.Trim(string(raw), `"`)
	part, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(part)
	if err != nil {
		return 1, false
	}
	if percent {
		n = n * replicas / 100
	}
	return max(n, 1), true
}

func (s *set) pod(ordinal int) string { return s.name() + "-" + strconv.Itoa(ordinal) }

func (s *set) namespace() string {
	namespace, _, _ := strings.Cut(s.key, "/")
	return namespace
}

type claimJSON struct {
	Metadata metaJSON `json:"metadata"`
	Spec     struct {
		VolumeName       string `json:"volumeName"`
		StorageClassName string `json:"storageClassName"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

type claim struct {
	head
	claimJSON
}

func (*claim) read(_ *Objects, h head, raw []byte) *claim {
	c := &claim{head: h}
	if json.Unmarshal(raw, &c.claimJSON) != nil {
		return nil
	}
	c.created = c.Metadata.CreationTimestamp.seconds()
	return c
}

type volumeJSON struct {
	Metadata metaJSON `json:"metadata"`
	Spec     struct {
		AccessModes  []string `json:"accessModes"`
		NodeAffinity struct {
			Required struct {
				Terms []nodeTerm `json:"nodeSelectorTerms"`
			} `json:"required"`
		} `json:"nodeAffinity"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

type volume struct {
	head
	volumeJSON
}

func (*volume) read(_ *Objects, h head, raw []byte) *volume {
	v := &volume{head: h}
	if json.Unmarshal(raw, &v.volumeJSON) != nil {
		return nil
	}
	v.created = v.Metadata.CreationTimestamp.seconds()
	return v
}

type leaseJSON struct {
	Spec struct {
		Seconds   int64 `json:"leaseDurationSeconds"`
		RenewTime stamp `json:"renewTime"`
	} `json:"spec"`
}

type lease struct {
	head
	leaseJSON
}

func (*lease) read(o *Objects, h head, raw []byte) *lease {
	l := &lease{head: h}
	if json.Unmarshal(raw, &l.leaseJSON) != nil {
		return nil
	}
	if at := l.Spec.RenewTime; !o.Live && !at.IsZero() {
		o.clockAtLeast(history.Time(at.UnixNano()) - h.seen.At)
	}
	return l
}

type attachmentJSON struct {
	Metadata metaJSON `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName"`
		Source   struct {
			Volume string `json:"persistentVolumeName"`
		} `json:"source"`
	} `json:"spec"`
	Status struct {
		Attached    bool `json:"attached"`
		AttachError struct {
			Message string `json:"message"`
		} `json:"attachError"`
		DetachError struct {
			Message string `json:"message"`
		} `json:"detachError"`
	} `json:"status"`
}

type attachment struct {
	head
	attachmentJSON
}

func (*attachment) read(_ *Objects, h head, raw []byte) *attachment {
	a := &attachment{head: h}
	if json.Unmarshal(raw, &a.attachmentJSON) != nil {
		return nil
	}
	a.created = a.Metadata.CreationTimestamp.seconds()
	return a
}

type noticeJSON struct {
	Involved struct {
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
	} `json:"involvedObject"`
	Reason        string `json:"reason"`
	Message       string `json:"message"`
	Type          string `json:"type"`
	Count         int64  `json:"count"`
	LastTimestamp stamp  `json:"lastTimestamp"`
	EventTime     stamp  `json:"eventTime"`
}

// notice is an Event of the API.
type notice struct {
	head
	noticeJSON
	last Moment
}

// mostNotices bounds how many Events are kept of one object.
const mostNotices = 64

func (o *Objects) addNotice(h head, f Fact) {
	n := &notice{head: h}
	if f.Deleted || json.Unmarshal(f.Raw, &n.noticeJSON) != nil {
		return
	}
	n.last = h.seen
	if o.Live {
		n.last = o.stamped(max(n.LastTimestamp.seconds(), n.EventTime.seconds()))
	}
	about := n.Involved.Kind + " " + f.Namespace + "/" + n.Involved.Name
	list := o.notices[about]
	for i, old := range list {
		if old.key == n.key {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) >= mostNotices {
		list = list[1:]
	}
	o.notices[about] = append(list, n)
}

// noticed returns the last Event about an object with one of the reasons, nil where there is none. A uid of "" is any.
func (o *Objects) noticed(kind, key, uid string, reasons ...string) *notice {
	var found *notice
	for _, n := range o.notices[kind+" "+key] {
		if uid != "" && n.Involved.UID != "" && n.Involved.UID != uid {
			continue
		}
		for _, r := range reasons {
			if n.Reason == r && (found == nil || n.last.At >= found.last.At) {
				found = n
			}
		}
	}
	return found
}
