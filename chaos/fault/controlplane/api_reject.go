package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/nodefile"
)

// APIReject has the API servers fail chosen requests of one client with status 500: of the victim's kubelet, a
// controller, or the scheduler. They ask a webhook first that does not answer, for these requests only, and failing
// that is a refusal (AuthorizationConfiguration, KEP 3221). Every API server is restarted for it, and again at the end.
func APIReject() fault.Definition {
	return fault.Define(fault.Definition{
		Name: "api-reject",
		Summary: "Has the API server fail chosen requests of the victim's kubelet or of a controller; it restarts " +
			"for that, and after.",
		Shown:  "The same requests, made in the client's name, are answered with 500, which names our webhook.",
		Healed: "The API server's manifest is restored, and such requests are not failed any more.",
		Needs:  componentNeeds(),
		// What a kubelet cannot read or write does not happen on its node.
		Takes:    []plan.Part{plan.PartRequests},
		Upstream: "k/k#120150",
		Manifest: true,
		Example:  plan.Params{"resources": []string{"persistentvolumeclaims"}, "verbs": []string{"get"}},
	}, func(p rejectParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		return &apiReject{victims: victims{Env: env, of: components()[0]}, rejectParams: p}, nil
	})
}

type rejectParams struct {
	Of        string   `json:"of,omitempty"` // One of clients; empty is the victim's kubelet.
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs,omitempty"` // Empty is all.
}

// clients are the controllers and the scheduler, with their names at the API server.
func clients() map[string]string {
	const account = "system:serviceaccount:kube-system:"
	return map[string]string{
		"attachdetach-controller":  account + "attachdetach-controller",
		"disruption-controller":    account + "disruption-controller",
		"persistent-volume-binder": account + "persistent-volume-binder",
		"scheduler":                "system:kube-scheduler",
		"statefulset-controller":   account + "statefulset-controller",
	}
}

// askable are the resources that clients ask for, with where they are. NAMESPACE is that of the workload.
func askable() map[string]string {
	return map[string]string{
		"configmaps":                  "api/v1/namespaces/NAMESPACE/configmaps",
		"csidrivers":                  "apis/storage.k8s.io/v1/csidrivers",
		"csinodes":                    "apis/storage.k8s.io/v1/csinodes",
		"leases":                      "apis/coordination.k8s.io/v1/namespaces/NAMESPACE/leases",
		"nodes":                       "api/v1/nodes",
		"nodes/status":                "api/v1/nodes",
		"persistentvolumeclaims":      "api/v1/namespaces/NAMESPACE/persistentvolumeclaims",
		"persistentvolumes":           "api/v1/persistentvolumes",
		"poddisruptionbudgets/status": "apis/policy/v1/namespaces/NAMESPACE/poddisruptionbudgets",
		"pods":                        "api/v1/namespaces/NAMESPACE/pods",
		"pods/binding":                "api/v1/namespaces/NAMESPACE/pods",
		"pods/status":                 "api/v1/namespaces/NAMESPACE/pods",
		"secrets":                     "api/v1/namespaces/NAMESPACE/secrets",
		"volumeattachments":           "apis/storage.k8s.io/v1/volumeattachments",
	}
}

// methods are the verbs, with their methods. A watch is none of them: one that is open stays.
func methods() map[string]string {
	return map[string]string{
		"get": http.MethodGet, "list": http.MethodGet, "create": http.MethodPost, "update": http.MethodPut,
		"patch": http.MethodPatch, "delete": http.MethodDelete,
	}
}

func (p rejectParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	known := slices.Sorted(maps.Keys(askable()))
	if len(p.Resources) == 0 {
		errs.Add("resources", "use some of "+strings.Join(known, ", "), "is empty")
	}
	if p.Of != "" {
		errs.OneOf("of", "client", p.Of, slices.Sorted(maps.Keys(clients()))...)
	}
	errs.SetOf("resources", "resource", p.Resources, known...)
	errs.SetOf("verbs", "verb", p.Verbs, slices.Sorted(maps.Keys(methods()))...)
	return errs
}

func (p rejectParams) verbs() []string {
	if len(p.Verbs) == 0 {
		return slices.Sorted(maps.Keys(methods()))
	}
	return p.Verbs
}

// rejectEvery is the interval of questions to the API server.
const rejectEvery = 500 * time.Millisecond

type apiReject struct {
	victims
	rejectParams
	leases fault.Leases // As of the heal.
}

// user is the client's name at the API server.
func (k *apiReject) user() string {
	return cmp.Or(clients()[k.Of], "system:node:"+k.Node.Name())
}

// authorization and webhook are the paths of the API server's configuration and of how it reaches the webhook, in the
// directory that kubeadm gives it.
func (k *apiReject) authorization() string {
	return "/etc/kubernetes/pki/" + k.Owner.Name() + ".yaml"
}
func (k *apiReject) webhook() string { return "/etc/kubernetes/pki/" + k.Owner.Name() + ".conf" }

// Undo restores the manifests and removes the configuration.
func (k *apiReject) Undo(ctx context.Context) ([]undo.Task, error) {
	nodes, err := k.ControlPlane(ctx)
	if err != nil {
		return nil, err
	}
	tasks, err := manifestsBack(ctx, nodes, k.Owner, k.of.manifest())
	files := []string{k.authorization(), k.webhook()}
	for i := range tasks {
		tasks[i].Actions = append(tasks[i].Actions, undo.Command("rm", "-f", files[0], files[0]+".new", files[1],
			files[1]+".new"))
	}
	return tasks, err
}

// Waits says how long the API server and those that depend on it may take to restart on a busy machine.
func (rejectParams) Waits() time.Duration { return healedBound + backBound }

// Inject gives every API server the configuration, and waits until it and the leaders are back: a scheduler that lost
// its lease restarts, and the next steps would wait for it. One whose requests about its lease fail is back after the
// heal only. Whether the configuration took effect is for Confirm.
func (k *apiReject) Inject(ctx context.Context) error {
	err := k.configure(ctx)
	if err == nil {
		shows := []fault.Show{fault.Await(k.failing(), rejectEvery, healedBound, k.Held), k.leadersBack(true)}
		if k.Of == "scheduler" && slices.Contains(k.Resources, "leases") {
			shows = shows[:1]
		}
		if _, waited := fault.All(ctx, shows...); waited != nil {
			k.Log.Info("wait for the API server", "error", waited)
		}
	}
	return err
}

// leadersBack waits until leases are renewed at an API server with our configuration, or without.
func (k *apiReject) leadersBack(configured bool) fault.Show {
	return func(ctx context.Context) ([]fault.Fact, error) {
		return k.atWork(ctx, "leaders to renew their leases", backBound, renewals,
			k.runsWith(configFlag+k.authorization(), configured))
	}
}

func (k *apiReject) failing() string { return "the API server to fail requests of " + k.user() }

func (k *apiReject) configure(ctx context.Context) error {
	return eachControlNode(ctx, k.Env, func(n clusters.Node) error {
		manifest, err := clusters.Run(ctx, n, "cat", undo.ManifestDir+k.of.manifest())
		if err != nil {
			return fmt.Errorf("read manifest of the API server: %w", err)
		}
		after, modes, err := k.configured([]byte(manifest))
		if err != nil {
			return err
		}
		config, err := k.config(modes)
		if err != nil {
			return err
		}
		for _, f := range []struct {
			path    string
			content []byte
		}{{k.authorization(), config}, {k.webhook(), []byte(k.connection())}} {
			if _, err := nodefile.Place(ctx, n, f.path, f.content, manifestMode); err != nil {
				return fmt.Errorf("configure the API server: %w", err)
			}
		}
		return swap(ctx, n, k.Owner, k.of.manifest(), func([]byte) ([]byte, error) { return after, nil })
	})
}

const (
	modeFlag   = "--authorization-mode="
	configFlag = "--authorization-config="
)

// configured returns the API server's manifest with our configuration instead of its modes, and these. It is an error
// if the modes are not in its flags.
func (k *apiReject) configured(manifest []byte) (after []byte, modes []string, err error) {
	after, err = edit(manifest, k.of.name, func(args []string) ([]string, error) {
		for i, a := range args {
			if list, found := strings.CutPrefix(a, modeFlag); found {
				modes, args[i] = strings.Split(list, ","), configFlag+k.authorization()
			}
		}
		unknown := slices.ContainsFunc(modes, func(m string) bool { return m != "Node" && m != "RBAC" })
		if len(modes) == 0 || unknown {
			return nil, fmt.Errorf("configure the API server: its flags say %s%s; want Node and RBAC", modeFlag,
				strings.Join(modes, ","))
		}
		return args, nil
	})
	return after, modes, err
}

// config returns the API server's AuthorizationConfiguration.
func (k *apiReject) config(modes []string) ([]byte, error) {
	quoted := func(all []string) string {
		var list []string
		for _, one := range all {
			list = append(list, strconv.Quote(one))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	const asked = "request.resourceAttributes."
	authorizers := []any{map[string]any{"type": "Webhook", "name": k.Owner.Name(), "webhook": map[string]any{
		"timeout": "3s", "failurePolicy": "Deny", "subjectAccessReviewVersion": "v1",
		"matchConditionSubjectAccessReviewVersion": "v1", "authorizedTTL": "1s", "unauthorizedTTL": "1s",
		"connectionInfo": map[string]any{"type": "KubeConfigFile", "kubeConfigFile": k.webhook()},
		"matchConditions": []any{
			map[string]any{"expression": "request.user == " + strconv.Quote(k.user())},
			map[string]any{"expression": "has(request.resourceAttributes)"},
			map[string]any{"expression": asked + "verb in " + quoted(k.verbs())},
			map[string]any{"expression": "(" + asked + `subresource == "" ? ` + asked + "resource : " + asked +
				`resource + "/" + ` + asked + "subresource) in " + quoted(k.Resources)},
		},
	}}}
	for _, m := range modes {
		authorizers = append(authorizers, map[string]any{"type": m, "name": strings.ToLower(m)})
	}
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration", "authorizers": authorizers,
	})
	if err != nil {
		return nil, fmt.Errorf("write the API server's configuration: %w", err)
	}
	return config, nil
}

// connection returns the kubeconfig of a webhook that nobody answers; its path names the owner.
func (k *apiReject) connection() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: nobody, cluster: {server: "https://127.0.0.1:1/%s"}}]
contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}]
users: [{name: nobody}]
current-context: nobody
`, k.Owner.Name())
}

// fails asks once in the client's name, and reports whether the API server failed it for the want of our webhook. A
// write is a dry run, of an object that there is not.
func (k *apiReject) fails(ctx context.Context, verb, resource string) (bool, error) {
	url := strings.ReplaceAll(askable()[resource], "NAMESPACE", k.Namespace)
	_, sub, found := strings.Cut(resource, "/")
	if found || verb != "list" && verb != "create" {
		url = path.Join(url, k.Owner.Name(), sub)
	}
	request := k.Kube.Discovery().RESTClient().Verb(methods()[verb]).AbsPath(url).MaxRetries(0).
		SetHeader("Impersonate-User", k.user()).SetHeader("Impersonate-Group", "system:authenticated")
	if methods()[verb] != http.MethodGet {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	err := request.Do(ctx).Error()
	var status *apierrors.StatusError
	switch {
	case err == nil:
		return false, nil
	case strings.Contains(err.Error(), k.Owner.Name()) && apierrors.IsInternalError(err):
		return true, nil
	case errors.As(err, &status) && status.ErrStatus.Code < http.StatusInternalServerError &&
		!strings.Contains(status.ErrStatus.Message, "impersonate"):
		return false, nil // It was taken, whatever it was answered.
	}
	return false, fmt.Errorf("ask to %s %s as %s: %w", verb, resource, k.user(), err)
}

func (k *apiReject) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.Until(ctx, k.failing(), rejectEvery, fault.ConfirmLimit, k.Held)
}

// Held asks once of each kind.
func (k *apiReject) Held(ctx context.Context) ([]fault.Fact, error) { return k.ask(ctx, true) }

// ask checks that every API server runs with our configuration and that requests of every kind fail, or that none does.
// The requests reach one API server of several.
func (k *apiReject) ask(ctx context.Context, want bool) ([]fault.Fact, error) {
	_, facts, err := k.runsWith(configFlag+k.authorization(), want)(ctx)
	if err != nil {
		return nil, err
	}
	begin := k.Clock()
	is := map[bool]string{true: "fails", false: "does not fail"}
	var names []string
	for _, resource := range k.Resources {
		for _, verb := range k.verbs() {
			failed, err := k.fails(ctx, verb, resource)
			if err != nil {
				return nil, err
			}
			name := verb + " " + resource
			if failed != want {
				return nil, fault.NotYet("the API server %s a request of %s to %s", is[failed], k.user(), name)
			}
			names = append(names, name)
		}
	}
	return append(facts, k.Saw(begin, "the API server %s requests of %s to %s", is[want], k.user(),
		strings.Join(names, ", "))...), nil
}

// Heal restores the manifests, and notes the leases: a renewal since then was taken.
func (k *apiReject) Heal(ctx context.Context) error {
	err := k.CarryOutOnControlPlane(ctx)
	if _, failed := k.NoteLeases(&k.leases)(ctx); failed != nil {
		k.Log.Info("read leases after the heal", "error", failed) // The API server restarts: any later renewal counts.
	}
	return err
}

// ConfirmHealed shows that every API server runs as before, that no such request fails, that leaders renew their leases
// there, and that the node is Ready and no taint says otherwise: a controller manager that restarted too takes it away
// some seconds later.
func (k *apiReject) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	taken := func(ctx context.Context) ([]fault.Fact, error) { return k.ask(ctx, false) }
	return fault.All(ctx,
		fault.Await("the API server not to fail requests of "+k.user(), rejectEvery, healedBound, taken),
		k.leadersBack(false),
		k.NodeBack(&k.leases),
		fault.Await("the taints of node "+k.Node.Name()+" to go", rejectEvery, healedBound,
			fault.Judged(k.Env, k.ReadNode, untainted)))
}

// untainted checks that no taint says that a node is not Ready.
func untainted(node *corev1.Node) (string, error) {
	if node == nil {
		return "", fault.NotYet("there is no Node")
	}
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeUnreachable || t.Key == corev1.TaintNodeNotReady {
			return "", fault.NotYet("it has the taint %s", t.ToString())
		}
	}
	return fmt.Sprintf("no taint says that node %q is not Ready", node.Name), nil
}
