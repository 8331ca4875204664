package check

import (
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// facts are a history and what several checks read off it: each of it is read once, when it is first asked for.
type facts struct {
	history history.History

	sets     *setWatch
	scene    *scene
	sceneErr error
	staged   bool
	gone     map[string]*history.Event
}

// setting returns the scene.
func (f *facts) setting() (*scene, error) {
	if !f.staged {
		f.scene, f.sceneErr = setScene(f.history)
		f.staged = true
	}
	return f.scene, f.sceneErr
}

// watch returns what the API watch saw of StatefulSets.
func (f *facts) watch() *setWatch {
	if f.sets == nil {
		f.sets = readSets(f.history)
	}
	return f.sets
}

// lastProcesses returns, for each pod, the end of its process that ended last.
func (f *facts) lastProcesses() map[string]*history.Event {
	if f.gone == nil {
		f.gone = lastProcesses(f.history)
	}
	return f.gone
}

// planOf returns the plan of a history, false where there is none or it cannot be read. A check whose plan is not known
// applies: it then says why it is Unknown.
func planOf(h history.History) (plan.Plan, bool) {
	for i := range h.Events {
		if h.Events[i].Kind == history.KindPlan {
			p, err := readPlan(h.Events[i].Plan)
			return p, err == nil
		}
	}
	return plan.Plan{}, false
}
