package fault_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// puppet is a fault that does what it is told, and remembers what it was asked.
type puppet struct {
	calls []string
	bad   map[string]func(context.Context) error // By method; called once and then forgotten.
	empty bool                                   // Show nothing.
	blank bool                                   // Show a fact that says nothing.
}

func (p *puppet) call(ctx context.Context, name string) error {
	p.calls = append(p.calls, name)
	act := p.bad[name]
	delete(p.bad, name)
	if act == nil {
		return ctx.Err()
	}
	return act(ctx)
}

func (p *puppet) facts(err error) ([]fault.Fact, error) {
	if p.blank {
		return []fault.Fact{{}}, err
	}
	if err != nil || p.empty {
		return nil, err
	}
	return []fault.Fact{{Span: history.At(5e9), Sentence: "seen"}}, nil
}

func (p *puppet) Inject(ctx context.Context) error { return p.call(ctx, "inject") }
func (p *puppet) Heal(ctx context.Context) error   { return p.call(ctx, "heal") }

// Undo is noted as arm. The node's disarm is noted as well.
func (p *puppet) Undo(ctx context.Context) ([]undo.Task, error) {
	node := fake.NewNode("worker", clusters.RoleWorker, nil)
	node.On([]string{nodeagent.Path, "arm", "..."})
	node.On([]string{nodeagent.Path, "disarm", "..."}, fake.Reply{
		Do: func(ctx context.Context, _ clusters.Command, _ string) (clusters.Result, error) {
			return clusters.Result{}, p.call(ctx, "disarm")
		},
	})
	return []undo.Task{{Node: node}}, p.call(ctx, "arm")
}

func (p *puppet) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return p.facts(p.call(ctx, "confirm"))
}

func (p *puppet) Held(ctx context.Context) ([]fault.Fact, error) { return p.facts(p.call(ctx, "held")) }

func (p *puppet) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return p.facts(p.call(ctx, "confirmHealed"))
}

// notes takes the facts and the journal's entries; full makes the journal fail.
type notes struct {
	facts   []history.Fault
	journal []history.FaultStage
	full    bool
}

func (n *notes) Record(e history.Event) { n.facts = append(n.facts, *e.Fault) }

func (n *notes) Append(_ string, _ history.Time, f history.Fault) error {
	if n.full {
		return errors.New("no space left on device")
	}
	n.journal = append(n.journal, f.Stage)
	return nil
}

func (n *notes) stages() []history.FaultStage {
	var out []history.FaultStage
	for _, f := range n.facts {
		out = append(out, f.Stage)
	}
	return out
}

func guard(p *puppet, n *notes, change ...func(*fault.Config)) *fault.Guard {
	begin := time.Now()
	cfg := fault.Config{
		Step: plan.Step{N: 3, Do: plan.ActionFault,
			Fault: &plan.Fault{Name: "puppet", Hold: plan.Duration(10 * time.Second)}},
		Env: fault.Env{
			Node: fake.NewNode("worker", clusters.RoleWorker, nil), Pod: "mysql-1", RunID: "r1",
			Clock: func() history.Time { return history.Time(time.Since(begin)) },
		},
		Recorder: n, Journal: n,
	}
	for _, c := range change {
		c(&cfg)
	}
	return fault.NewGuard(cfg, p)
}

const (
	intent, armed, injected = history.StageIntent, history.StageArmed, history.StageInjected
	shown, failed           = history.StageConfirmed, history.StageFaultFailed
	healed, gone            = history.StageHealed, history.StageConfirmedHealed
)

func boom(context.Context) error    { return errors.New("boom") }
func crash(context.Context) error   { panic("boom") }
func hangs(c context.Context) error { <-c.Done(); return c.Err() }

// life is one way in which a fault's life goes.
type life struct {
	name   string
	bad    map[string]func(context.Context) error
	empty  bool
	cancel time.Duration // When the trial is given up.
	calls  []string
	stages []history.FaultStage
	errs   []string
	took   time.Duration
}

func lives() []life {
	all := []string{"heal", "arm", "inject", "confirm", "held", "heal", "disarm", "confirmHealed"}
	unheld := []string{"heal", "arm", "inject", "confirm", "heal", "disarm", "confirmHealed"}
	return []life{
		{name: "goes well", calls: all, took: 10 * time.Second,
			stages: []history.FaultStage{intent, armed, injected, shown, healed, gone}},
		{name: "cannot be healed to begin with", bad: map[string]func(context.Context) error{"heal": boom},
			calls: all[:1], stages: []history.FaultStage{failed},
			errs: []string{`begin fault "puppet" on node "worker": heal to begin clean: boom`}},
		{name: "cannot be armed", bad: map[string]func(context.Context) error{"arm": boom},
			calls:  []string{"heal", "arm", "heal"},
			stages: []history.FaultStage{intent, failed, healed}, errs: []string{`arm fault "puppet"`}},
		{name: "inject fails", bad: map[string]func(context.Context) error{"inject": boom},
			calls:  []string{"heal", "arm", "inject", "heal", "disarm", "confirmHealed"},
			stages: []history.FaultStage{intent, armed, failed, healed, gone}, errs: []string{`inject fault "puppet"`}},
		{name: "inject panics", bad: map[string]func(context.Context) error{"inject": crash},
			calls:  []string{"heal", "arm", "inject", "heal", "disarm", "confirmHealed"},
			stages: []history.FaultStage{intent, armed, failed, healed, gone}, errs: []string{"panic: boom"}},
		{name: "ends by itself", bad: map[string]func(context.Context) error{"held": boom}, calls: all,
			stages: []history.FaultStage{intent, armed, injected, shown, failed, healed, gone},
			errs:   []string{`hold fault "puppet" on node "worker": it was not there to the end: boom`},
			took:   10 * time.Second},
		{name: "confirm never comes", bad: map[string]func(context.Context) error{"confirm": hangs},
			calls: unheld, stages: []history.FaultStage{intent, armed, injected, failed, healed, gone},
			errs: []string{`confirm fault "puppet"`, "the limit of 1m0s is over"}, took: time.Minute},
		{name: "shows nothing", empty: true, calls: unheld,
			stages: []history.FaultStage{intent, armed, injected, failed, healed, failed},
			errs:   []string{"it shows nothing for it"}},
		{name: "given up while it holds", cancel: 4 * time.Second, calls: unheld, took: 4 * time.Second,
			stages: []history.FaultStage{intent, armed, injected, shown, failed, healed, gone},
			errs:   []string{`hold fault "puppet" on node "worker": given up before its time: context canceled`}},
		{name: "given up while it is injected", cancel: 4 * time.Second,
			bad:    map[string]func(context.Context) error{"inject": hangs},
			calls:  []string{"heal", "arm", "inject", "heal", "disarm", "confirmHealed"},
			stages: []history.FaultStage{intent, armed, failed, healed, gone}, took: 4 * time.Second,
			errs: []string{`inject fault "puppet"`, "context canceled"}},
		{name: "given up while it is shown to be healed", cancel: 12 * time.Second,
			bad:    map[string]func(context.Context) error{"confirmHealed": hangs},
			calls:  append(all[:8:8], "heal", "disarm", "confirmHealed"),
			stages: []history.FaultStage{intent, armed, injected, shown, healed, failed, healed, gone},
			errs:   []string{"context canceled"}, took: 12 * time.Second},
		{name: "does not stay gone", bad: map[string]func(context.Context) error{"confirmHealed": boom},
			calls: all, stages: []history.FaultStage{intent, armed, injected, shown, healed, failed},
			errs: []string{`confirm healed fault "puppet"`}, took: 10 * time.Second},
		{name: "cannot be disarmed", bad: map[string]func(context.Context) error{"disarm": boom},
			calls:  append(all[:7:7], "heal", "disarm", "confirmHealed"),
			stages: []history.FaultStage{intent, armed, injected, shown, failed, healed, gone},
			errs:   []string{"disarm the undo:", "boom"}, took: 10 * time.Second},
	}
}

func TestRun(t *testing.T) {
	for _, tc := range lives() {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, n := &puppet{bad: tc.bad, empty: tc.empty}, &notes{}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.cancel > 0 {
					time.AfterFunc(tc.cancel, cancel)
				}
				begin := time.Now()
				err := guard(p, n).Run(ctx)
				if took := time.Since(begin); took != tc.took {
					t.Errorf("took %s, want %s", took, tc.took)
				}
				checkError(t, err, tc.errs)
				if d := cmp.Diff(tc.calls, p.calls); d != "" {
					t.Errorf("calls (-want +got):\n%s", d)
				}
				if d := cmp.Diff(tc.stages, n.stages()); d != "" {
					t.Errorf("facts (-want +got):\n%s", d)
				}
				if d := cmp.Diff(n.stages(), n.journal); d != "" {
					t.Errorf("journal, against the facts:\n%s", d)
				}
			})
		})
	}
}

func TestRunOpenLeavesTheEffectThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, n := &puppet{}, &notes{}
		end, err := guard(p, n).RunOpen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		so := []history.FaultStage{intent, armed, injected, shown}
		if slices.Contains(p.calls[1:], "heal") || !slices.Equal(n.stages(), so) {
			t.Errorf("while open: calls %q, facts %q", p.calls, n.stages())
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		whole := &puppet{}
		if err := guard(whole, &notes{}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(whole.calls, p.calls); d != "" {
			t.Errorf("calls, against those of Run (-want +got):\n%s", d)
		}
		p, n = &puppet{bad: map[string]func(context.Context) error{"confirm": boom}}, &notes{}
		end, err = guard(p, n).RunOpen(t.Context())
		checkError(t, err, []string{"boom"})
		if last := p.calls[len(p.calls)-1]; end != nil || last != "confirmHealed" {
			t.Errorf("after an effect that was not shown: end is there: %t, the last call was %q", end != nil, last)
		}
	})
}

func checkError(t *testing.T, err error, want []string) {
	t.Helper()
	if (err == nil) != (len(want) == 0) {
		t.Errorf("got error %v, want %q", err, want)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got error %q, want it to have %q", err, w)
		}
	}
	var stage *fault.StageError
	if err != nil && !errors.As(err, &stage) {
		t.Errorf("%q names no stage", err)
	}
}

func TestFactsNameVictimAndEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, n := &puppet{}, &notes{}
		if err := guard(p, n).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := history.Fault{Step: 3, Name: "puppet", Stage: shown, Node: "worker", Victim: "mysql-1",
			Evidence: []string{"seen (at 5.000s)"}}
		if d := cmp.Diff(want, n.facts[3]); d != "" {
			t.Errorf("fact (-want +got):\n%s", d)
		}
	})
}

// TestInjectEndsBeforeTheUndo gives a fault a short life: what is done after the undo would stay.
func TestInjectEndsBeforeTheUndo(t *testing.T) {
	for name, test := range map[string]struct {
		life  time.Duration
		calls []string
		want  string
	}{
		"slow act": {12 * time.Second, []string{"heal", "arm", "inject", "heal", "disarm", "confirmHealed"},
			"the limit of 10s"},
		"no time": {2 * time.Second, []string{"heal", "arm", "heal", "disarm"}, "the undo is due before the act"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, n := &puppet{bad: map[string]func(context.Context) error{"inject": hangs}}, &notes{}
				short := func(c *fault.Config) { c.Step.Fault.Life = plan.Duration(test.life) }
				checkError(t, guard(p, n, short).Run(t.Context()), []string{test.want})
				if d := cmp.Diff(test.calls, p.calls); d != "" {
					t.Errorf("calls (-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestAFactThatSaysNothingIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, n := &puppet{blank: true}, &notes{}
		if err := guard(p, n).Run(t.Context()); !errors.Is(err, fault.ErrNothingShown) {
			t.Errorf("got %v", err)
		}
		for _, f := range n.facts {
			if len(f.Evidence) > 0 {
				t.Errorf("stage %s has the evidence %q", f.Stage, f.Evidence)
			}
		}
	})
}

func TestHooksAreAroundTheFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, n := &puppet{}, &notes{}
		g := guard(p, n, func(c *fault.Config) {
			c.Before = func(context.Context) error { p.calls = append(p.calls, "before"); return nil }
			c.After = func(context.Context) error { p.calls = append(p.calls, "after"); return errors.New("differs") }
		})
		err := g.Run(t.Context())
		want := []string{
			"heal", "before", "arm", "inject", "confirm", "held", "heal", "disarm", "confirmHealed", "after",
		}
		if d := cmp.Diff(want, p.calls); d != "" {
			t.Errorf("calls (-want +got):\n%s", d)
		}
		checkError(t, err, []string{"differs"})
		p, n = &puppet{}, &notes{}
		err = guard(p, n, func(c *fault.Config) { c.Before = boom }).Run(t.Context())
		if !slices.Equal(p.calls, []string{"heal"}) || !slices.Equal(n.stages(), []history.FaultStage{failed}) {
			t.Errorf("after an error of Before: calls %q, facts %q", p.calls, n.stages())
		}
		checkError(t, err, []string{"boom"})
	})
}

func TestWithoutAJournalEntryNothingIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, n := &puppet{}, &notes{full: true}
		checkError(t, guard(p, n).Run(t.Context()), []string{`keep stage "intent" in the journal: no space`})
		if slices.Contains(p.calls, "arm") || slices.Contains(p.calls, "inject") {
			t.Errorf("calls %q", p.calls)
		}
	})
}

func TestAJournalThatFillsUpIsHealedFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &notes{}
		p := &puppet{bad: map[string]func(context.Context) error{"confirm": func(context.Context) error {
			n.full = true
			return nil
		}}}
		checkError(t, guard(p, n).Run(t.Context()),
			[]string{`stage "confirmed" in the journal`, `stage "confirmedHealed"`})
		want := []string{"heal", "arm", "inject", "confirm", "heal", "disarm", "confirmHealed"}
		if d := cmp.Diff(want, p.calls); d != "" {
			t.Errorf("calls (-want +got):\n%s", d)
		}
	})
}

// TestRandomWalk calls the guard's verbs in any order, with errors and panics among them, and holds what it does
// against an oracle that knows only the drawing of the states.
func TestRandomWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, n := &puppet{bad: map[string]func(context.Context) error{}}, &notes{}
		g := guard(p, n)
		verbs := map[string]func(context.Context) error{
			"begin": g.Begin, "arm": g.Arm, "inject": g.Inject, "confirm": g.Confirm, "heal": g.Heal,
			"confirmHealed": g.ConfirmHealed,
		}
		names := []string{"begin", "arm", "inject", "confirm", "heal", "confirmHealed"}
		oracle := "fresh"
		for range rapid.IntRange(1, 40).Draw(t, "length") {
			verb := rapid.SampledFrom(names).Draw(t, "verb")
			method := strings.Replace(verb, "begin", "heal", 1)
			clear(p.bad)
			bad := rapid.IntRange(0, 9).Draw(t, "chance") == 0
			if bad {
				p.bad[method] = rapid.SampledFrom([]func(context.Context) error{boom, crash}).Draw(t, "how")
			}
			before, facts := len(p.calls), len(n.facts)
			err := verbs[verb](t.Context())
			next, legal := walk(oracle, verb)
			switch {
			case !legal:
				if !errors.Is(err, fault.ErrOrder) || len(p.calls) != before || len(n.facts) != facts {
					t.Fatalf("%s in state %s: got %v, calls %q", verb, oracle, err, p.calls[before:])
				}
				continue
			case bad:
				next = "hurt"
			}
			if (err != nil) != bad {
				t.Fatalf("%s in state %s: got %v", verb, oracle, err)
			}
			if len(n.facts) != facts+1 || (n.facts[facts].Stage == failed) != bad {
				t.Fatalf("%s in state %s: facts %+v", verb, oracle, n.facts[facts:])
			}
			oracle = next
			if string(g.State()) != oracle {
				t.Fatalf("after %s: state %q, want %q", verb, g.State(), oracle)
			}
		}
	})
}

// walk is the oracle: one line for each arrow.
func walk(state, verb string) (next string, legal bool) {
	switch state + " " + verb {
	case "fresh begin":
		return "clean", true
	case "clean arm":
		return "armed", true
	case "armed inject":
		return "injected", true
	case "injected confirm":
		return "shown", true
	case "healed confirmHealed":
		return "over", true
	}
	if verb == "heal" && state != "fresh" && state != "over" {
		return "healed", true
	}
	return state, false
}

// bounded is a node whose agent gives leave, or refuses.
type bounded struct {
	*fake.Node
	p      *puppet
	refuse error
}

func (b bounded) BeginFault(ctx context.Context, owner, name string, life time.Duration) error {
	want := fault.Life(plan.Fault{Hold: plan.Duration(10 * time.Second)}) + patient{}.Waits()
	if owner == "" || name != "puppet" || life != want {
		return errors.New("not what the guard has to ask for")
	}
	return errors.Join(b.refuse, b.p.call(ctx, "begin"))
}

func (b bounded) EndFault(ctx context.Context, _ string) error { return b.p.call(ctx, "end") }

// patient are parameters of a fault whose act waits.
type patient struct{}

func (patient) Waits() time.Duration { return 7 * time.Minute }

// Nothing is armed or done without leave of the node, and leave is given back after the heal. It is asked for the time
// that the fault's definition tells: sessions on existing clusters are bounded by that.
func TestNodeGivesLeave(t *testing.T) {
	for name, tc := range map[string]struct {
		refuse error
		want   []string
	}{
		"given": {nil, []string{
			"heal", "begin", "arm", "inject", "confirm", "held", "heal", "disarm", "end", "confirmHealed",
		}},
		"refused": {errors.New("refused by the node's agent"), []string{"heal", "begin"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, n := &puppet{}, &notes{}
				g := guard(p, n, func(c *fault.Config) {
					c.Env.Node = bounded{fake.NewNode("worker", clusters.RoleWorker, nil), p, tc.refuse}
					c.Of = fault.Define(fault.Definition{Name: "puppet"},
						func(patient, plan.Fault, fault.Env) (fault.Fault, error) { return p, nil })
				})
				err := g.Run(t.Context())
				if (err != nil) != (tc.refuse != nil) || tc.refuse != nil && !errors.Is(err, tc.refuse) {
					t.Errorf("run = %v", err)
				}
				if !slices.Equal(p.calls, tc.want) {
					t.Errorf("calls %q, want %q", p.calls, tc.want)
				}
			})
		})
	}
}
