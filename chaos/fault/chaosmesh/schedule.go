package chaosmesh

import (
	"fmt"
	"slices"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seatrial/seatrial/chaos/plan"
)

// The limits of a Schedule that is unrolled. A Schedule has no end, and a plan has: it is done so many times.
const (
	defaultTimes = 3
	maxTimes     = 20
	maxInterval  = time.Hour
)

// schedule holds a Schedule against what can be unrolled.
func (r *rules) schedule(obj *v1alpha1.Schedule) {
	kind := string(obj.Spec.Type)
	if !slices.Contains(kinds(), kind) || kind == "Schedule" || kind == "Workflow" {
		r.add("spec.type", "use an experiment", "%q within a Schedule cannot be carried out", printable(kind))
	}
	if obj.Spec.ConcurrencyPolicy.IsAllow() {
		r.add("spec.concurrencyPolicy", `use "Forbid"`, "each time must be over before the next: %q allows otherwise",
			obj.Spec.ConcurrencyPolicy)
	}
}

// schedule returns the steps of a Schedule: the experiment, and a pause until the next time, so many times.
func (t *translator) schedule(r *rules, m Manifest, obj *v1alpha1.Schedule) []plan.Step {
	kind := string(obj.Spec.Type)
	one, err := spawn(&obj.Spec.EmbedChaos, kind)
	if err != nil {
		r.add("spec", "add the spec that belongs to spec.type", "%s", printable(err.Error()))
		return nil
	}
	intervals, ok := t.intervals(r, obj.Spec.Schedule)
	before := len(r.errs)
	spec := fieldOf(&obj.Spec.EmbedChaos, kind)
	var steps []plan.Step
	for i := range len(intervals) + 1 { // Each time is drawn anew.
		body := t.embedded(r, m, embed{path: "spec", spec: spec, name: m.Object.GetName(),
			obj: one.DeepCopyObject().(client.Object)})
		if !ok || len(r.errs) > before {
			return nil
		}
		for j := range body {
			body[j].Note = printable(fmt.Sprintf("%s; time %d of %d", body[j].Note, i+1, len(intervals)+1))
		}
		steps = append(steps, body...)
		if i == len(intervals) {
			break
		}
		rest := intervals[i] - least(body)
		if rest <= 0 {
			r.add("spec."+spec+".duration", "shorten it, or the interval",
				"%s does not end before the next time, after %s", least(body), intervals[i])
			return nil
		}
		steps = append(steps, pause(rest, m.Name()+fmt.Sprintf("; %s between two times", intervals[i])))
	}
	return steps
}

// intervals returns the times between one and the next, as the schedule has them from a fixed day on.
func (t *translator) intervals(r *rules, schedule string) ([]time.Duration, bool) {
	times := t.times
	if times == 0 {
		times = defaultTimes
	}
	if times < 1 || times > maxTimes {
		r.errs.Range("times", times, 1, maxTimes)
		return nil, false
	}
	cron, err := v1alpha1.StandardCronParser.Parse(schedule)
	if err != nil {
		r.add("spec.schedule", `use cron's words, for example "@every 2m"`, "%s", printable(err.Error()))
		return nil, false
	}
	var out []time.Duration
	next := cron.Next(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
	for range times - 1 {
		after := cron.Next(next)
		if next.IsZero() || after.IsZero() || after.Sub(next) > maxInterval {
			r.add("spec.schedule", fmt.Sprintf("use one that comes every %s or more often", maxInterval),
				"%q leaves more than that between two times: no trial takes so long", printable(schedule))
			return nil, false
		}
		out = append(out, after.Sub(next))
		next = after
	}
	return out, true
}
