package chaosmesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// Name is the name of the fault that Chaos Mesh carries out.
const Name = "mesh"

// Needs is the capability that it requires.
const Needs = "chaos-mesh"

// Experiment returns the fault that Chaos Mesh in the cluster carries out: an experiment on the victim's pod.
//
// Inject creates an object of chaos-mesh.org/v1alpha1 in the trial's namespace with strict field validation. It selects
// the victim by name and has the owner's label. Its duration is the fault's life: Chaos Mesh ends it if nobody does,
// and a timer on the control plane then deletes the object.
//
// Confirm requires the conditions Selected and AllInjected, records that name only the victim, and a probe of ours that
// sees the effect and did not see it before: a stress program in the pod; none of the pod's former processes; file
// attributes of the volume that take as long, or fail, as planned.
//
// ConfirmHealed requires that the object is recovered (AllRecovered), deleted and gone, and that the probe does not see
// the effect. If the object stays, its pod is deleted, which ends every effect, and Chaos Mesh is told to release the
// object.
func Experiment() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    Name,
		Summary: "Has the Chaos Mesh in the cluster run an experiment on the victim's pod.",
		Shown: "Selected and AllInjected are True, the records name only the victim, and a probe of ours sees the " +
			"effect, which it did not see before.",
		Healed:   "The object is deleted and gone, and the probe no longer sees the effect.",
		Needs:    []string{Needs, "static-pods", "systemd"},
		Upstream: "chaos-mesh.org; chaos-mesh#2449, #4280",
		Example:  plan.Params{"manifest": json.RawMessage(exampleManifest)},
		Takes:    []plan.Part{plan.PartContainer},
	}, func(p params, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		e := &experiment{env: env}
		return e, e.read(p.Manifest)
	})
}

// exampleManifest is an experiment on the first pod, as written in a plan.
const exampleManifest = `{"apiVersion": "chaos-mesh.org/v1alpha1", "kind": "IOChaos",
"metadata": {"name": "slow-disk", "namespace": "trial"}, "spec": {"action": "latency", "delay": "300ms",
"duration": "1m", "mode": "all", "selector": {"pods": {"trial": ["mysql-0"]}}, "volumePath": "/var/lib/mysql"}}`

type params struct {
	Manifest json.RawMessage `json:"manifest,omitempty"` // One object of chaos-mesh.org/v1alpha1.
}

func (p params) Validate(s plan.Setting) plan.FieldErrors {
	var errs plan.FieldErrors
	if len(p.Manifest) == 0 {
		errs.Add("manifest", "set it", "is missing for fault %q", s.Fault.Name)
		return errs
	}
	obj, errs := decode(p.Manifest)
	if len(errs) > 0 {
		return errs.Under("manifest")
	}
	if _, err := newProbe(obj, fault.Env{}); err != nil {
		errs.Add("manifest.kind", "use one experiment on pods", "%T cannot be left to Chaos Mesh", obj)
		return errs
	}
	i := newImporter(s.Workload, 0, []plan.FaultCaps{{Name: Name}})
	steps := i.steps("manifest", obj)
	if len(i.errs) == 0 && (len(steps) != 1 || steps[0].Fault == nil || steps[0].Fault.Ordinal != s.Fault.Ordinal ||
		podsOf(obj).Mode != v1alpha1.AllMode || i.namespace != placeholder) {
		i.errs.Add("manifest.spec.selector",
			fmt.Sprintf("use pods: {%s: [%s]} with mode all", placeholder, i.pod(s.Fault.Ordinal)),
			"must name the victim and nobody else")
	}
	return i.errs
}

// The bounds of Chaos Mesh's actions.
const (
	injectBound  = 45 * time.Second
	recoverBound = 60 * time.Second
	undoBound    = 60 * time.Second
	look         = 500 * time.Millisecond
)

// experiment is one object of Chaos Mesh.
type experiment struct {
	env   fault.Env
	body  []byte
	kind  string
	probe probe
}

// read decodes the plan's manifest into the object to create.
func (e *experiment) read(manifest json.RawMessage) error {
	obj, errs := decode(manifest)
	if err := errs.Err(); err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	var err error
	if e.probe, err = newProbe(obj, e.env); err != nil {
		return err
	}
	e.kind = obj.GetObjectKind().GroupVersionKind().Kind
	obj.SetName(strings.ToLower(e.env.Owner.Name()))
	obj.SetNamespace(e.env.Namespace)
	obj.SetLabels(map[string]string{
		undo.OwnerLabel: e.env.Owner.Name(), clusters.ManagedByLabel: clusters.ManagedBy,
	})
	podsOf(obj).Selector.Pods = map[string][]string{e.env.Namespace: {e.env.Pod}}
	specOf(obj).FieldByName("Duration").Set(reflect.ValueOf(new(e.env.Life.String())))
	e.body, err = encode(obj)
	return err
}

// objects returns the client for the object's kind. It is an error if the cluster does not serve the kind.
func (e *experiment) objects() (objects, error) {
	plural, err := installed(e.env.Kube, e.kind)
	return objects{
		client: e.env.Kube.Discovery().RESTClient(), kind: e.kind, plural: plural, namespace: e.env.Namespace,
	}, err
}

func (e *experiment) name() string { return strings.ToLower(e.env.Owner.Name()) }

// Undo has the control plane delete the object.
func (e *experiment) Undo(ctx context.Context) ([]undo.Task, error) {
	resource := strings.ToLower(e.kind) + ".chaos-mesh.org"
	return e.env.OnControlPlane(ctx, undo.RemoveMarks(e.env.Owner, resource))
}

// Inject checks that the effect is not there, then creates the object.
func (e *experiment) Inject(ctx context.Context) error {
	o, err := e.objects()
	if err != nil {
		return err
	}
	if err := e.probe.before(ctx); err != nil {
		return err
	}
	return o.create(ctx, e.body)
}

func (e *experiment) Confirm(ctx context.Context) ([]fault.Fact, error) {
	o, err := e.objects()
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%s %q to be Selected and AllInjected", e.kind, e.name())
	return fault.All(ctx, fault.Await(what, look, injectBound, e.injected(o)), e.probe.seen)
}

// injected checks that Chaos Mesh's status names the victim as injected, and nobody else.
func (e *experiment) injected(o objects) fault.Show {
	return func(ctx context.Context) ([]fault.Fact, error) {
		begin := e.env.Clock()
		s, there, err := o.get(ctx, e.name())
		if err != nil {
			return nil, err
		}
		done, missing := s.injected()
		want := []string{e.env.Namespace + "/" + e.env.Pod}
		selected, all := s.condition(v1alpha1.ConditionSelected), s.condition(v1alpha1.ConditionAllInjected)
		switch {
		case !there:
			return nil, await.Stop(errors.New("it is not there any more"))
		case !selected, !all, len(missing) > 0:
			return nil, fault.NotYet("Selected is %t, AllInjected %t, not injected %q, last failure %q", selected, all,
				missing, s.failure())
		case !slices.Equal(done, want):
			return nil, await.Stop(fmt.Errorf("injected are %q, says Chaos Mesh; planned were %q", done, want))
		}
		return e.env.Saw(begin, "%s %q says Selected and AllInjected, of %s alone", e.kind, e.name(), done[0]), nil
	}
}

func (e *experiment) Held(ctx context.Context) ([]fault.Fact, error) {
	o, err := e.objects()
	if err != nil {
		return nil, err
	}
	return fault.All(ctx, e.injected(o), e.probe.seen)
}

// Heal deletes the object; ConfirmHealed waits until it is gone. A cluster without the kind has none.
func (e *experiment) Heal(ctx context.Context) error {
	o, err := e.objects()
	if errors.Is(err, errNotInstalled) {
		return nil
	}
	if err != nil {
		return err
	}
	return o.remove(ctx, e.name())
}

// ConfirmHealed waits until the object is gone and then until the effect is.
func (e *experiment) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	o, err := e.objects()
	if err != nil {
		return nil, err
	}
	facts, err := e.gone(o, recoverBound)(ctx)
	if errors.Is(err, await.ErrTimeout) {
		var failed error
		if facts, failed = e.byForce(ctx, o); failed != nil {
			return nil, errors.Join(err, failed)
		}
		err = nil
	}
	if err != nil {
		return nil, err
	}
	seen, err := e.probe.gone(ctx)
	return append(facts, seen...), err
}

func (e *experiment) gone(o objects, bound time.Duration) fault.Show {
	return func(ctx context.Context) ([]fault.Fact, error) {
		begin, recovered := e.env.Clock(), ""
		what := fmt.Sprintf("%s %q to be recovered and gone", e.kind, e.name())
		return fault.Until(ctx, what, look, bound, func(ctx context.Context) ([]fault.Fact, error) {
			s, there, err := o.get(ctx, e.name())
			if s.condition(v1alpha1.ConditionAllRecovered) {
				recovered = "; before, it said AllRecovered"
			}
			switch {
			case err != nil:
				return nil, err
			case there:
				return nil, fault.NotYet("AllRecovered is %t, last failure %q", recovered != "", s.failure())
			}
			return e.env.Saw(begin, "the API server has no %s %q any more%s", e.kind, e.name(), recovered), nil
		})
	}
}

// byForce deletes the pod, which ends every effect, and then has Chaos Mesh release the object.
func (e *experiment) byForce(ctx context.Context, o objects) ([]fault.Fact, error) {
	pods := e.env.Kube.CoreV1().Pods(e.env.Namespace)
	begin := e.env.Clock()
	pod, err := pods.Get(ctx, e.env.Pod, metav1.GetOptions{})
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("undo by force: get pod %q: %w", e.env.Pod, err)
	}
	uid := types.UID("") // Stays empty if the pod is gone.
	if err == nil {
		uid = pod.UID
		err = pods.Delete(ctx, e.env.Pod, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("undo by force: delete pod %q: %w", e.env.Pod, err)
		}
	}
	what := fmt.Sprintf("pod %q (uid %s) to be gone", e.env.Pod, uid)
	undone, err := fault.Until(ctx, what, look, undoBound, func(ctx context.Context) ([]fault.Fact, error) {
		now, err := pods.Get(ctx, e.env.Pod, metav1.GetOptions{})
		switch {
		case client.IgnoreNotFound(err) != nil:
			return nil, err
		case err == nil && now.UID == uid:
			return nil, fault.NotYet("it is there")
		}
		return e.env.Saw(begin, "Chaos Mesh did not recover it: pod %q (uid %q) is gone, and what was done to it "+
			"ended with it", e.env.Pod, uid), nil
	})
	if err != nil {
		return nil, err
	}
	if err := o.force(ctx, e.name()); err != nil {
		return nil, err
	}
	gone, err := e.gone(o, recoverBound/2)(ctx)
	return append(undone, gone...), err
}
