package explain_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/world"
)

// watchLag is how much later than another a watch may have told of what came before.
const watchLag = 2 * time.Second

// did is what a real controller did, as its own Events tell.
type did struct {
	at  history.Time
	set string
	may []string // The steps, any of which it can have been.
}

// deeds reads what StatefulSets' controllers did from the Events in a history.
func deeds(h history.History, until history.Time) []did {
	var out []did
	counts := map[string]int{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind != history.KindObject || e.Object == nil || e.Object.Resource != "events" || e.Span.NotAfter > until {
			continue
		}
		var n struct {
			Involved struct{ Kind, Name string } `json:"involvedObject"`
			Reason   string
			Message  string
			Count    int
		}
		if json.Unmarshal(e.Object.Raw, &n) != nil || n.Involved.Kind != "StatefulSet" ||
			strings.Contains(n.Message, " Claim ") || // Also made anew for a pod that is there.
			!strings.Contains(n.Message, " Pod "+n.Involved.Name+"-") || n.Count <= counts[e.Object.UID] {
			continue
		}
		counts[e.Object.UID] = n.Count
		_, rest, _ := strings.Cut(n.Message, " Pod "+n.Involved.Name+"-")
		ordinal, _, _ := strings.Cut(rest, " ")
		d := did{at: e.Span.NotAfter, set: e.Object.Namespace + "/" + n.Involved.Name}
		switch n.Reason {
		case "SuccessfulCreate":
			d.may = []string{"create " + ordinal}
		case "SuccessfulDelete":
			d.may = []string{"delete " + ordinal, "update " + ordinal, "replace " + ordinal}
		default:
			continue
		}
		out = append(out, d)
	}
	return out
}

// TestAgreesWithTheController holds the model against what real controllers did in the recorded runs: whenever one
// created or deleted a pod, the model says a moment before that it would do that, and that nothing is in its way.
func TestAgreesWithTheController(t *testing.T) {
	root := "../../fixtures/recorded/*"
	if runs := os.Getenv("SEATRIAL_EXPLAIN_RUNS"); runs != "" {
		root = runs // More runs, of whoever has some.
	}
	paths, err := filepath.Glob(root)
	if err != nil {
		t.Fatal(err)
	}
	agreed := 0
	for _, path := range paths {
		dir, err := rundir.Open(path)
		if err != nil {
			continue // A file beside the runs.
		}
		h, err := dir.ReadHistory()
		if err != nil {
			t.Fatal(err)
		}
		last := world.New(h).Last()
		steps, wanted := explain.Steps(h, last), demands(h)
		for _, d := range deeds(h, last) {
			if !d.fits(wanted[d.set], steps[d.set]) {
				t.Errorf("%s: at %s it did one of %q; the model: %s", path, d.at.Sub(world.New(h).Begin()), d.may,
					around(h, steps[d.set], d.at))
				continue
			}
			agreed++
		}
	}
	if agreed < 20 {
		t.Errorf("only %d acts of controllers were compared", agreed)
	}
	t.Logf("%d acts of controllers agree with the model", agreed)
}

// demand is what a StatefulSet asked for from a moment on.
type demand struct {
	span  history.Span
	burst bool   // Parallel, or with a maxUnavailable: many things may be done at once.
	what  string // Its generation, and the revision to update to.
}

func demands(h history.History) map[string][]demand {
	out := map[string][]demand{}
	for i := range h.Events {
		e := &h.Events[i]
		var s struct {
			Metadata struct{ Generation int }
			Spec     struct {
				PodManagementPolicy string
				UpdateStrategy      struct{ RollingUpdate struct{ MaxUnavailable any } }
			}
			Status struct{ UpdateRevision string }
		}
		if e.Object == nil || e.Object.Resource != "statefulsets" || json.Unmarshal(e.Object.Raw, &s) != nil {
			continue
		}
		key := e.Object.Namespace + "/" + e.Object.Name
		out[key] = append(out[key], demand{e.Span,
			s.Spec.PodManagementPolicy == "Parallel" || s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable != nil,
			fmt.Sprint(s.Metadata.Generation, s.Status.UpdateRevision)})
	}
	return out
}

// fits reports that the model would do what was done. Of one that does many things at once the model tells the first. A
// change of what is wanted may reach the record after what the controller did because of it: another watch tells of it,
// and a new revision is written into the status last.
func (d did) fits(all []demand, steps []explain.Step) bool {
	burst, changed, made := false, false, false
	for i, now := range all {
		burst = now.burst
		near := now.span.NotAfter >= d.at.Add(-watchLag) && now.span.NotBefore <= d.at.Add(watchLag)
		made = made || near && i == 0
		changed = changed || near && i > 0 && all[i-1].what != now.what
	}
	if made || changed && strings.HasPrefix(d.may[0], "delete") {
		return true
	}
	return slices.ContainsFunc(steps, func(s explain.Step) bool {
		return s.From <= d.at.Add(watchLag) && s.To >= d.at.Add(-watchLag) && slices.ContainsFunc(d.may,
			func(step string) bool {
				return s.Key == step || burst && strings.Count(s.Key, " ") == 1
			})
	})
}

func around(h history.History, steps []explain.Step, at history.Time) string {
	var b strings.Builder
	begin := world.New(h).Begin()
	for _, s := range steps {
		if s.From <= at.Add(watchLag) && s.To >= at.Add(-watchLag) {
			fmt.Fprintf(&b, "\n  %s to %s: %s", s.From.Sub(begin), s.To.Sub(begin), s.Key)
		}
	}
	return b.String()
}
