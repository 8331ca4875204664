package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/world"
)

type explainFlags struct {
	at, set, output string
	namespace, name string // Of set.
	access          accessFlags
	bound           time.Duration
}

// explained is what explain prints with -o json.
type explained struct {
	StatefulSets []explain.Diagnosis `json:"statefulSets"`
	Longest      *explain.Spell      `json:"longest,omitempty"` // Of a run: when nothing moved for the longest time.
}

func newExplain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain [RUNDIR]",
		Short: "Say what a StatefulSet waits for: which pod blocks it, since when, why, and for how long",
		Long: `Explain says what the controller of each StatefulSet wants to do next, which rule makes it wait,
which pod blocks it, since when and why, with the events or fields that show it, and whether that looks transient or
permanent.

With RUNDIR it explains a saved run, at the end of the load or at the moment --at, and the longest time in which
nothing moved; it needs no cluster. With --statefulset it reads a live cluster and changes nothing there.
The exit code does not depend on what is found.`,
		Example: "  seatrial explain runs/latest\n  seatrial explain runs/latest --at +45s -o json\n" +
			"  seatrial explain --statefulset shop/mysql",
		Args: func(cmd *cobra.Command, args []string) error { return f.check(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			var found explained
			var err error
			if f.set != "" {
				found, err = f.live(cmd.Context())
			} else {
				found, err = f.saved(args[0])
			}
			if err != nil {
				return err
			}
			return writeExplained(cmd.OutOrStdout(), found, f.output)
		},
	}
	cmd.Flags().StringVar(&f.at, "at", "", "moment of the run to explain, from its beginning, for example "+
		"+45s (default: the end of the load, or of the history)")
	cmd.Flags().DurationVar(&f.bound, "bound", explain.DefaultBound, "how long nothing must move to be called stuck")
	cmd.Flags().StringVar(&f.set, "statefulset", "", "NAMESPACE/NAME of a StatefulSet of a cluster, instead of RUNDIR")
	f.access.registerContext(cmd)
	cmd.Flag("kubeconfig").Usage = "kubeconfig of the cluster, with --statefulset (default: $KUBECONFIG, or " +
		"~/.kube/config)"
	cmd.Flag("context").Usage = "context of the cluster, with --statefulset (default: the current one)"
	outputFlag(cmd, &f.output, "StatefulSets")
	cmd.ValidArgsFunction = completeRuns
	return cmd
}

// check holds the arguments against each other before anything is read.
func (f *explainFlags) check(cmd *cobra.Command, args []string) error {
	if f.bound <= 0 {
		return badArguments("--bound %s is no time in which something could move; give for example 5s", f.bound)
	}
	if f.set == "" {
		if f.access.given() {
			return badArguments("--kubeconfig and --context are for a cluster; give --statefulset NAMESPACE/NAME, too")
		}
		return exactly("RUNDIR")(cmd, args)
	}
	if len(args) > 0 {
		return badArguments("%q and --statefulset are two things to explain; give one", args[0])
	}
	if f.at != "" {
		return badArguments("--at is for a saved run; a cluster is explained as it is now")
	}
	var ok bool
	f.namespace, f.name, ok = strings.Cut(f.set, "/")
	if !ok || f.namespace == "" || f.name == "" || strings.Contains(f.name, "/") {
		return badArguments("--statefulset %q is not valid; give NAMESPACE/NAME, for example default/mysql", f.set)
	}
	return nil
}

func (f *explainFlags) saved(path string) (explained, error) {
	dir, err := openRun(path)
	if err != nil {
		return explained{}, err
	}
	h, err := dir.ReadHistory()
	if err != nil {
		return explained{}, badArguments("RUNDIR %q: %w", path, err)
	}
	w := world.New(h)
	moment, err := f.moment(w)
	if err != nil {
		return explained{}, err
	}
	found := explained{StatefulSets: explain.At(w, moment, f.bound)}
	if found.StatefulSets == nil {
		found.StatefulSets = []explain.Diagnosis{}
	}
	if spell, ok := explain.Longest(w, w.Trialled(), f.bound); ok {
		found.Longest = &spell
	}
	return found, nil
}

// moment is the one that --at means, and the end of the load without it.
func (f *explainFlags) moment(w *world.World) (history.Time, error) {
	if f.at == "" {
		if end, ok := w.EndOf(history.PhaseLoad); ok {
			return end, nil
		}
		return w.Trialled(), nil
	}
	d, err := time.ParseDuration(f.at)
	if err != nil || d < 0 {
		return 0, badArguments("--at %q is no time since the beginning of the run; give for example +45s", f.at)
	}
	begin := w.Begin()
	moment, last := begin.Add(d), w.Last()
	if moment > last {
		return 0, badArguments("--at %q is after the end of the run; give at most +%.1fs", f.at,
			last.Sub(begin).Seconds())
	}
	return moment, nil
}

func writeExplained(w io.Writer, found explained, output string) error {
	var names []string
	for _, d := range found.StatefulSets {
		names = append(names, d.StatefulSet)
	}
	return writeAs(w, output, found, names, func() error {
		if len(found.StatefulSets) == 0 {
			say(w, "No StatefulSet was there at that moment, as far as is known.")
		}
		for _, d := range found.StatefulSets {
			if err := report.WriteDiagnosis(w, d); err != nil {
				return err
			}
		}
		if found.Longest == nil {
			return nil
		}
		say(w, "")
		return report.WriteSpell(w, *found.Longest)
	})
}

// liveBound bounds all requests to a live cluster.
const liveBound = 30 * time.Second

func (f *explainFlags) live(ctx context.Context) (explained, error) {
	config, err := clientConfig(f.access.kubeconfig, f.access.context)
	if err != nil {
		return explained{}, err
	}
	kube, err := dynamic.NewForConfig(config)
	if err != nil {
		return explained{}, fmt.Errorf("make a client of the cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, liveBound)
	defer cancel()
	now := time.Now()
	w, err := askCluster(ctx, kube, f.namespace, f.name, now)
	if err != nil {
		return explained{}, err
	}
	return explained{StatefulSets: []explain.Diagnosis{explain.Now(w, now, f.set, f.bound)}}, nil
}

// askCluster returns the world as the API server shows it now. A kind of objects that may not be read is recorded as
// missing; without the StatefulSet and its pods there is nothing to say.
func askCluster(
	ctx context.Context, kube dynamic.Interface, namespace, name string, now time.Time,
) (*world.World, error) {
	var facts []history.Event
	at := history.At(history.Time(now.UnixNano()))
	watch := func(resource string, state history.ObserverState, detail string) {
		facts = append(facts, history.Event{Kind: history.KindObserver, Span: at,
			Observer: &history.Observer{Name: "api/" + resource, State: state, Detail: detail}})
	}
	see := func(resource string, o *unstructured.Unstructured) error {
		raw, err := o.MarshalJSON()
		facts = append(facts, history.Event{Kind: history.KindObject, Span: at, Object: &history.Object{
			Verb: history.VerbListed, Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName(),
			UID: string(o.GetUID()), ResourceVersion: o.GetResourceVersion(), Raw: raw}})
		return err
	}
	sets := appsv1.SchemeGroupVersion.WithResource("statefulsets")
	set, err := kube.Resource(sets).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, badArguments("--statefulset: there is no StatefulSet %q in namespace %q", name, namespace)
	}
	if err == nil {
		err = see(sets.Resource, set)
	}
	if err != nil {
		return nil, fmt.Errorf("read StatefulSet %q in namespace %q: %w", name, namespace, err)
	}
	core := corev1.SchemeGroupVersion
	for _, l := range []struct {
		in       schema.GroupVersion
		resource string
		of       string // The namespace.
	}{
		{core, "events", namespace},
		{coordinationv1.SchemeGroupVersion, "leases", corev1.NamespaceNodeLease},
		{core, "nodes", ""},
		{core, "persistentvolumeclaims", namespace},
		{core, "persistentvolumes", ""},
		{core, "pods", namespace},
		{storagev1.SchemeGroupVersion, "volumeattachments", ""},
	} {
		list, err := kube.Resource(l.in.WithResource(l.resource)).Namespace(l.of).List(ctx, metav1.ListOptions{})
		if err != nil && l.resource == "pods" {
			return nil, fmt.Errorf("list pods in namespace %q: %w", namespace, err)
		}
		if err != nil {
			watch(l.resource, history.ObserverLoss, fmt.Sprintf("%s could not be read: %v", l.resource, err))
			continue
		}
		watch(l.resource, history.ObserverOn, "listed")
		for i := range list.Items {
			if err := see(l.resource, &list.Items[i]); err != nil {
				return nil, fmt.Errorf("read %s: %w", l.resource, err)
			}
		}
	}
	return world.New(history.History{Events: facts}), nil
}
