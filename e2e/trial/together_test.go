package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// acts is what faults have done, in order.
type acts struct {
	mu   sync.Mutex
	done []string
}

func (a *acts) say(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = append(a.done, what)
}

func (a *acts) index(what string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Index(a.done, what)
}

// madeUp is a fault that only says what it does.
type madeUp struct {
	acts    *acts
	step    int
	confirm func(context.Context) error
}

func (m *madeUp) say(what string) { m.acts.say(fmt.Sprintf("%d %s", m.step, what)) }

func (m *madeUp) Inject(context.Context) error {
	m.say("inject")
	return nil
}

func (m *madeUp) Confirm(ctx context.Context) ([]fault.Fact, error) {
	if m.confirm != nil {
		if err := m.confirm(ctx); err != nil {
			return nil, err
		}
	}
	m.say("confirm")
	return []fault.Fact{{Span: history.At(bootclock.Now()), Sentence: "it is so"}}, nil
}

func (m *madeUp) Heal(context.Context) error {
	m.say("heal")
	return nil
}

func (m *madeUp) ConfirmHealed(context.Context) ([]fault.Fact, error) {
	m.say("gone")
	return []fault.Fact{{Span: history.At(bootclock.Now()), Sentence: "it is no more"}}, nil
}

// node is one that nothing is done on.
type quietNode struct {
	clusters.Node
	name string
}

func (n quietNode) Name() string { return n.name }

// calm is a runner whose cluster is two nodes, each with a pod, and whose faults do nothing.
func calm(t *testing.T, p plan.Plan) (*runner, *acts) {
	t.Helper()
	dir, err := rundir.Create(t.TempDir(), "made-up", 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	rec, err := dir.RecordHistory()
	if err != nil {
		t.Fatal(err)
	}
	journal, err := dir.OpenAppend(rundir.JournalFile)
	if err != nil {
		t.Fatal(err)
	}
	kube := kubefake.NewClientset()
	c := &runner{Place: &Place{}, dir: dir, rec: newFeed(rec, p), log: slog.New(slog.DiscardHandler), kube: kube,
		journal: journal}
	c.Plan, c.Progress, c.RunID = p, &lockedWriter{w: &bytes.Buffer{}}, "made-up"
	c.Plan.Workload.StatefulSet = "db"
	for i := range 2 {
		n := fmt.Sprintf("worker%d", i)
		c.nodes = append(c.nodes, quietNode{name: n})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: c.podName(i)}, Spec: corev1.PodSpec{NodeName: n}}
		if _, err := kube.CoreV1().Pods(c.namespace()).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	done := &acts{}
	maker := func(confirm func(context.Context) error) func(plan.Fault, int, fault.Env) (fault.Fault, error) {
		return func(_ plan.Fault, step int, _ fault.Env) (fault.Fault, error) {
			return &madeUp{acts: done, step: step, confirm: confirm}, nil
		}
	}
	c.Parts.Faults = []fault.Definition{
		{Name: "cut", Takes: []plan.Part{plan.PartNode}, New: maker(nil)},
		{Name: "kill", Takes: []plan.Part{plan.PartKubelet}, New: maker(nil)},
		{Name: "dud", New: maker(func(context.Context) error { return errors.New("it did nothing") })},
	}
	return c, done
}

// close ends the history and returns it.
func (c *runner) close(t *testing.T) history.History {
	t.Helper()
	if err := errors.Join(c.rec.Close(), c.journal.Close()); err != nil {
		t.Fatal(err)
	}
	h, err := c.dir.ReadHistory()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func does(name string, ordinal int, hold time.Duration, during ...plan.Step) plan.Step {
	return plan.Step{Do: plan.ActionFault, Bound: plan.Duration(time.Minute), Fault: &plan.Fault{
		Name: name, Ordinal: ordinal, Hold: plan.Duration(hold), During: during}}
}

func awaits(a plan.Await) plan.Step {
	return plan.Step{Do: plan.ActionAwait, Await: &a, Bound: plan.Duration(10 * time.Second)}
}

func beside(branches ...[]plan.Step) plan.Step {
	return plan.Step{Do: plan.ActionTogether, Branches: branches, Bound: plan.Duration(time.Minute)}
}

func planned(steps ...plan.Step) plan.Plan {
	plan.Number(steps)
	return plan.Plan{Steps: steps}
}

// TestTwoFaultsInForceAtOnce has a fault begin when another is confirmed, and end before it.
func TestTwoFaultsInForceAtOnce(t *testing.T) {
	p := planned(beside(
		[]plan.Step{does("cut", 0, time.Millisecond, awaits(plan.Await{For: plan.AwaitFault, Step: 5,
			Stage: plan.StageGone}))},
		[]plan.Step{awaits(plan.Await{For: plan.AwaitFault, Step: 2, Delay: plan.Duration(10 * time.Millisecond)}),
			does("kill", 1, time.Millisecond)},
	))
	c, done := calm(t, p)
	if err := c.steps(t.Context()); err != nil {
		t.Fatal(err)
	}
	order := []string{"2 inject", "2 confirm", "5 inject", "5 confirm", "5 gone", "2 gone"}
	for i := range order[1:] {
		if done.index(order[i]) < 0 || done.index(order[i]) > done.index(order[i+1]) {
			t.Fatalf("%q does not come before %q: %v", order[i], order[i+1], done.done)
		}
	}
	if len(c.active.held) != 0 {
		t.Errorf("in force after the end: %+v", c.active.held)
	}
	var awaited []*history.Await
	h := c.close(t)
	for i := range h.Events {
		if a := h.Events[i].Await; a != nil {
			awaited = append(awaited, a)
		}
	}
	if len(awaited) != 2 {
		t.Fatalf("%d moments are in the history, want 2", len(awaited))
	}
	for _, a := range awaited {
		if a.Known < a.Happened.NotAfter || a.Acted < a.Known || !strings.Contains(a.What, "the fault of step") {
			t.Errorf("got %+v", a)
		}
	}
	if waited := awaited[0].Acted.Sub(awaited[0].Known); awaited[0].Step != 4 || waited < 10*time.Millisecond {
		t.Errorf("step %d went on after %s, want step 4 after 10ms", awaited[0].Step, waited)
	}
}

// TestTheFirstErrorEndsTheOthers has one fault found out while another is held for a minute: that one is healed at
// once, and shown to be.
func TestTheFirstErrorEndsTheOthers(t *testing.T) {
	p := planned(beside(
		[]plan.Step{does("cut", 0, time.Minute)},
		[]plan.Step{awaits(plan.Await{For: plan.AwaitFault, Step: 2}), does("dud", 1, time.Millisecond)},
	))
	c, done := calm(t, p)
	begin := time.Now()
	err := c.steps(t.Context())
	if err == nil || !strings.Contains(err.Error(), "it did nothing") ||
		!strings.Contains(err.Error(), "parallel sequence 2 failed") ||
		strings.Index(err.Error(), "it did nothing") > strings.Index(err.Error(), "parallel sequence") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
	for _, what := range []string{"2 gone", "4 gone"} {
		if done.index(what) < 0 {
			t.Errorf("%q is missing: %v", what, done.done)
		}
	}
	c.close(t)
}

// TestTwoVictimsOnOneNode has two pods on one node, which no plan can know: what the second fault needs is away.
func TestTwoVictimsOnOneNode(t *testing.T) {
	p := planned(does("cut", 0, time.Millisecond, does("kill", 1, time.Millisecond)))
	c, done := calm(t, p)
	for _, pod := range []string{"db-0", "db-1"} {
		got, err := c.kube.CoreV1().Pods(c.namespace()).Get(t.Context(), pod, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got.Spec.NodeName = "worker0"
		if _, err := c.kube.CoreV1().Pods(c.namespace()).Update(t.Context(), got, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	err := c.steps(t.Context())
	if err == nil || !strings.Contains(err.Error(), `begin fault "kill": fault "cut" of step 1 is active on node `+
		`"worker0": it has taken the node away`) {
		t.Errorf("got %v", err)
	}
	if done.index("2 inject") >= 0 || done.index("1 gone") < 0 {
		t.Errorf("got %v", done.done)
	}
	c.close(t)
}

// TestWhatOutlastsEndsLast has faults in two branches outlast the one around them.
func TestWhatOutlastsEndsLast(t *testing.T) {
	lasting := func() plan.Step {
		s := does("dud", 1, time.Millisecond)
		s.Fault.Name, s.Fault.Outlast = "kill", true
		return s
	}
	one, two := lasting(), lasting()
	one.Fault.Ordinal = 0
	p := planned(does("still", 0, time.Millisecond, beside([]plan.Step{one}, []plan.Step{two})))
	c, done := calm(t, p)
	c.Parts.Faults = append(c.Parts.Faults, fault.Definition{Name: "still", New: c.Parts.Faults[0].New})
	if err := c.steps(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"3 gone", "4 gone"} {
		if done.index(what) < done.index("1 gone") {
			t.Errorf("%q comes before %q: %v", what, "1 gone", done.done)
		}
	}
	c.close(t)
}
