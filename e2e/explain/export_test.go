package explain

import (
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// Step is a time in which the controller's next step was the same: "create 1", and the pods it waits for.
type Step struct {
	From, To history.Time
	Key      string
}

// Steps returns them for each StatefulSet, in order.
func Steps(h history.History, until history.Time) map[string][]Step {
	out := map[string][]Step{}
	_, all := stretches(world.New(h), until)
	for key, list := range all {
		for _, s := range list {
			out[key] = append(out[key], Step{s.from, s.to, s.key})
		}
	}
	return out
}

// Of diagnoses one StatefulSet, known or not.
func Of(w *world.World, moment history.Time, key string, bound time.Duration) Diagnosis {
	return diagnose(newKnown(w, moment, false), key, bound)
}
