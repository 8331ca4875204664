package object

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Drain cordons the victim's Node and evicts every pod on it by uid, except those of DaemonSets, static pods and pods
// that have ended, as kubectl drain does before an upgrade. It retries an eviction that a budget refuses. The pods'
// controllers recreate them.
func Drain() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "drain",
		Summary: "Cordons the victim's node and evicts every pod but those of DaemonSets, within their budgets.",
		Shown: "The Node is unschedulable, every eviction was answered, and no evicted pod is on the node any " +
			"more.",
		Healed: "It is uncordoned if it bears our mark; neither the field nor the taint is set.",
		Needs:  []string{"api"},
		// Every upgrade of a node begins with it; two drains at once must not exceed a disruption budget.
		Takes:    []plan.Part{plan.PartSchedulable},
		Upstream: "kubernetes.io/docs/tasks/administer-cluster/safely-drain-node",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return &drain{mark: cordon(env)}, nil })
}

const (
	// evictEvery is the delay before a refused eviction is retried, as in kubectl.
	evictEvery = 5 * time.Second
	// emptyBound is how long the node may take to be empty: the pace of a disruption budget and the pods' own grace.
	// fault.Limits.Confirm is shorter, except in an upgrade.
	emptyBound = 4 * time.Minute
)

type drain struct {
	*mark
	pods []*evicted
}

// evicted is a pod to evict, with the answers to its evictions.
type evicted struct {
	namespace, name string
	uid             types.UID
	answers         []answer
	taken           bool // No further eviction is needed.
}

// answer is the answer to one eviction, or to several with the same answer.
type answer struct {
	span  history.Span
	text  string
	times int
}

// String returns the pod's name and uid, for a sentence.
func (e *evicted) String() string {
	return fmt.Sprintf("pod %q (uid %s)", e.namespace+"/"+e.name, e.uid)
}

// Inject cordons the Node and requests every eviction once. Confirm retries the refused ones.
func (d *drain) Inject(ctx context.Context) error {
	if err := d.mark.Inject(ctx); err != nil {
		return err
	}
	pods, err := d.Evictable(ctx)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("drain Node %q: no pod is on it that could be evicted", d.Node.Name())
	}
	for _, p := range pods {
		d.pods = append(d.pods, &evicted{namespace: p.Namespace, name: p.Name, uid: p.UID})
	}
	for _, p := range d.pods {
		if err := d.evict(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// evict requests one eviction and records the answer. A refusal is no error.
func (d *drain) evict(ctx context.Context, p *evicted) error {
	begin := d.Clock()
	err := d.Kube.PolicyV1().Evictions(p.namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.namespace, Name: p.name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.uid}},
	})
	said := "201 Created"
	switch status := apierrors.APIStatus(nil); {
	case err == nil:
		p.taken = true
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // It is gone, or another pod has its name.
		p.taken, said = true, "it is gone already"
	case apierrors.IsTooManyRequests(err) && errors.As(err, &status):
		said = fmt.Sprintf("%d: %s", http.StatusTooManyRequests, refusal(status.Status()))
	default:
		return fmt.Errorf("evict %s: %w", p, err)
	}
	p.answered(history.Between(begin, d.Clock()), said)
	return nil
}

// refusal returns the server's reason, including the budget's if it gives one.
func refusal(s metav1.Status) string {
	words := []string{s.Message}
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			words = append(words, c.Message)
		}
	}
	return strings.Join(words, " ")
}

func (e *evicted) answered(span history.Span, text string) {
	if n := len(e.answers); n > 0 && e.answers[n-1].text == text {
		e.answers[n-1].span.NotAfter = span.NotAfter
		e.answers[n-1].times++
		return
	}
	e.answers = append(e.answers, answer{span, text, 1})
}

// Confirm shows the cordon, then that every eviction was accepted and every pod is gone.
func (d *drain) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, d.mark.Confirm, d.evicted)
}

// evicted retries evictions until every pod is gone, and returns their answers as facts.
func (d *drain) evicted(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("every evicted pod to be gone from node %q", d.Node.Name())
	last := d.Clock() // When evictions were last requested.
	empty, err := fault.Until(ctx, what, every, emptyBound, func(ctx context.Context) ([]fault.Fact, error) {
		if d.Clock().Sub(last) >= evictEvery {
			last = d.Clock()
			for _, p := range d.pods {
				if p.taken {
					continue
				}
				if err := d.evict(ctx, p); err != nil {
					return nil, err
				}
			}
		}
		return d.empty(ctx)
	})
	var facts []fault.Fact
	for _, p := range d.pods {
		for _, a := range p.answers {
			who := fmt.Sprintf("the eviction of %s was", p)
			if a.times > 1 {
				who = fmt.Sprintf("%d evictions of %s were", a.times, p)
			}
			facts = append(facts, fault.Seen(a.span, "%s answered: %s", who, a.text)...)
		}
	}
	return append(facts, empty...), err
}

func (d *drain) empty(ctx context.Context) ([]fault.Fact, error) {
	if len(d.pods) == 0 {
		return nil, errors.New("no pod was evicted yet")
	}
	begin := d.Clock()
	now, err := d.Evictable(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range d.pods {
		if !slices.ContainsFunc(now, func(q corev1.Pod) bool { return q.UID == p.uid }) {
			continue
		}
		if n := len(p.answers); n > 0 {
			return nil, fault.NotYet("%s is there, and its eviction was answered: %s", p, p.answers[n-1].text)
		}
		return nil, fault.NotYet("%s is there", p)
	}
	return d.Saw(begin, "none of the %d pods that were evicted is on node %q any more", len(d.pods), d.Node.Name()), nil
}

// Held checks that the Node is still cordoned and that no evicted pod is on it.
func (d *drain) Held(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, d.mark.Held, d.empty)
}
