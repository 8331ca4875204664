package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// localPlan is a legal plan whose volumes have sizes of their own, on two workers for three replicas of 256 MiB, and
// whose last step recycles them.
func localPlan() plan.Plan {
	p := legal()
	p.Workload.Binding = plan.BindingImmediate
	p.Workload.LocalVolumes = [][]int{{256, 16}, {256, 512}}
	p.Steps = append(p.Steps, plan.Step{N: 7, Do: plan.ActionRecycle, Bound: plan.Duration(time.Minute)})
	return p
}

func TestLocalVolumesThatAreLegal(t *testing.T) {
	p := localPlan()
	if err := p.Validate(caps()); err != nil {
		t.Fatal(err)
	}
	if text := p.Describe(p.Steps[6]); text != "recycle: the volumes whose claims are gone, emptied and free again" {
		t.Errorf("described as %q", text)
	}
}

func TestMistakesInLocalVolumes(t *testing.T) {
	const count, fit = "give a list for each worker", "give each replica one of workload.volumeMiB"
	shared := func(p *plan.Plan) { // Legal but for what the case adds.
		w := &p.Workload
		w.Storage, w.Fencing, w.Binding, w.LocalVolumes = plan.StorageSharedDisk, "single", "", nil
		p.Steps = p.Steps[:6]
	}
	for _, tc := range []mistake{
		{"binding", func(p *plan.Plan) { p.Workload.Binding = "immediate" },
			`workload.binding: no binding mode "immediate"; did you mean "Immediate"?`},
		{"binding like no other", func(p *plan.Plan) { p.Workload.Binding = "late" },
			`workload.binding: no binding mode "late"; known: Immediate, WaitForFirstConsumer`},
		{"binding of disks", func(p *plan.Plan) { shared(p); p.Workload.Binding = plan.BindingLate },
			`workload.binding: is not for storage "shareddisk"; leave it out, or use workload.storage: "local"`},
		{"volumes of disks", func(p *plan.Plan) { shared(p); p.Workload.LocalVolumes = [][]int{{256}, {256, 256}} },
			`workload.localVolumes: is not for storage "shareddisk"; leave it out, or use workload.storage: "local"`},
		{"no list", func(p *plan.Plan) { p.Workload.LocalVolumes = [][]int{} },
			"workload.localVolumes: 0 lists of 2 workers; " + count},
		{"list of nobody", func(p *plan.Plan) { p.Workload.LocalVolumes = [][]int{{256}, {256}, {256}} },
			"workload.localVolumes: 3 lists of 2 workers; " + count},
		{"size of nothing", func(p *plan.Plan) { p.Workload.LocalVolumes[0][1] = 0 },
			"workload.localVolumes[0][1]: 0 is out of range; use 1 to 1048576"},
		{"size of everything", func(p *plan.Plan) { p.Workload.LocalVolumes[1][0] = plan.MaxVolume + 1 },
			"workload.localVolumes[1][0]: 1048577 is out of range; use 1 to 1048576"},
		{"too few", func(p *plan.Plan) { p.Workload.LocalVolumes = [][]int{{256}, {256}} },
			"workload.localVolumes: 2 volumes for 3 replicas; " + fit},
		{"too small", func(p *plan.Plan) { p.Workload.LocalVolumes[1][1] = 255 },
			"workload.localVolumes: 2 volumes for 3 replicas; " + fit},
		{"recycled disks", func(p *plan.Plan) {
			step := p.Steps[6]
			shared(p)
			p.Steps = append(p.Steps, step)
		}, `steps[6].do: volumes of storage "shareddisk" are deleted with their claims; leave the step out, or use ` +
			`workload.storage: "local"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := localPlan()
			tc.change(&p)
			if err := p.Validate(caps()); err == nil || !strings.Contains(err.Error(), "\n  "+tc.want) {
				t.Errorf("got:\n%v\nwant it to have %q", err, tc.want)
			}
		})
	}
}

// TestRecyclingTakesNothingElse holds that the step has no field of its own, and that a plan says what it damages.
func TestRecyclingTakesNothingElse(t *testing.T) {
	p := localPlan()
	var text strings.Builder
	if err := p.Render(&text); err != nil {
		t.Fatal(err)
	}
	if hurt := "the data on volumes whose claims are gone, for good: deleted"; !strings.Contains(text.String(), hurt) {
		t.Errorf("the plan does not say what recycling damages:\n%s", text.String())
	}
	p.Steps[6].Ordinal = new(1)
	want := `steps[6].ordinal: is set in a "recycle" step; leave it out, or use do: "backup"`
	if err := p.Validate(caps()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got:\n%v\nwant it to have %q", err, want)
	}
}
