package check

import (
	"encoding/json"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// setPlan is what the plan says of the StatefulSet and of what is done to it, as far as a check of StatefulSets has to
// know it.
type setPlan struct {
	known    bool // The plan could be read.
	onDelete bool
	minReady bool // minReadySeconds is set.
	local    bool // The volumes are a node's own.
	updates  int  // Steps that change the template.
	rollouts int  // Steps by which a pod has to be replaced by a rolling update.
}

// setPlanJSON is the part of a plan that is read: the plan's own type may know less than an older or a newer plan.
type setPlanJSON struct {
	Workload struct {
		Replicas        int    `json:"replicas"`
		MinReadySeconds int    `json:"minReadySeconds"`
		UpdateStrategy  string `json:"updateStrategy"`
		Partition       int    `json:"partition"`
		Storage         string `json:"storage"`
	} `json:"workload"`
	Steps []setStepJSON `json:"steps"`
}

type setStepJSON struct {
	Do        string        `json:"do"`
	Replicas  *int          `json:"replicas"`
	Partition *int          `json:"partition"`
	During    []setStepJSON `json:"during"`
	Fault     *struct {
		Provoke []setStepJSON `json:"provoke"`
		During  []setStepJSON `json:"during"`
	} `json:"fault"`
}

// setPlanOf reads it off a history. Where there is no plan every check applies: it then says why it is Unknown.
func setPlanOf(h *world.World) setPlan {
	for i := range h.Events {
		if h.Events[i].Kind != history.KindPlan {
			continue
		}
		var raw setPlanJSON
		if json.Unmarshal(h.Events[i].Plan, &raw) != nil {
			return setPlan{}
		}
		w := raw.Workload
		p := setPlan{known: true, minReady: w.MinReadySeconds > 0,
			onDelete: w.UpdateStrategy == world.OnDelete,
			local:    w.Storage == "" || w.Storage == "local"}
		p.count(raw.Steps, &rollout{replicas: w.Replicas, partition: w.Partition})
		return p
	}
	return setPlan{}
}

// rollout is how far the plan has come.
type rollout struct {
	replicas, partition int
	pending             bool // There is an update that the partition may hold back.
}

func (p *setPlan) count(steps []setStepJSON, at *rollout) {
	for _, st := range steps {
		switch st.Do {
		case "scale":
			if st.Replicas != nil {
				at.replicas = *st.Replicas
			}
		case "update", "rollback":
			p.updates++
			at.pending = true
		case "partition":
			at.partition = 0
			if st.Partition != nil {
				at.partition = *st.Partition
			}
		}
		if at.pending && at.partition < at.replicas && (st.Do == "update" || st.Do == "rollback" ||
			st.Do == "partition") {
			p.rollouts++
		}
		p.count(st.During, at)
		if st.Fault != nil {
			p.count(st.Fault.Provoke, at)
			p.count(st.Fault.During, at)
		}
	}
}

func rolls(h *world.World) bool {
	p := setPlanOf(h)
	return !p.known || p.rollouts > 0 && !p.onDelete
}

func partitions(h *world.World) bool {
	p := setPlanOf(h)
	return !p.known || !p.onDelete
}

func updatesOnDelete(h *world.World) bool {
	p := setPlanOf(h)
	return !p.known || p.onDelete && p.updates > 0
}

func bindsLocal(h *world.World) bool {
	p := setPlanOf(h)
	return !p.known || p.local
}

func promotes(h *world.World) bool {
	p := setPlanOf(h)
	return !p.known || p.minReady && p.updates > 0 && !p.onDelete
}
