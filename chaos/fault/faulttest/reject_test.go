package faulttest_test

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/fault/controlplane"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// authorization is what the world reads of an API server's AuthorizationConfiguration.
type authorization struct {
	Authorizers []struct {
		Type    string `json:"type"`
		Webhook struct {
			FailurePolicy  string `json:"failurePolicy"`
			ConnectionInfo struct {
				KubeConfigFile string `json:"kubeConfigFile"`
			} `json:"connectionInfo"`
			MatchConditions []struct {
				Expression string `json:"expression"`
			} `json:"matchConditions"`
		} `json:"webhook"`
	} `json:"authorizers"`
}

// answerOther is the API server for requests in the name of others. The objects that are asked for do not exist.
func (w *world) answerOther(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.control()
	user := r.Header.Get("Impersonate-User")
	say := func(err *apierrors.StatusError) (*http.Response, error) {
		err.ErrStatus.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		return respond(int(err.ErrStatus.Code), err.ErrStatus), nil
	}
	switch webhook := w.asksFirst(user, r.URL.Path); {
	case !w.answers():
		return nil, errors.New("connect: connection refused")
	case w.forbids:
		return say(apierrors.NewForbidden(schema.GroupResource{Resource: "users"}, user,
			errors.New(`User "somebody" cannot impersonate resource "users"`)))
	case webhook != "":
		return say(apierrors.NewInternalError(fmt.Errorf("Post %q: connect: connection refused", webhook)))
	}
	return say(apierrors.NewNotFound(schema.GroupResource{Resource: "claims"}, path.Base(r.URL.Path)))
}

// asksFirst returns the webhook that the API server asks before it takes a request, if there is one. The lock is held.
func (w *world) asksFirst(user, url string) string {
	const flag = "--authorization-config="
	args := w.static("kube-apiserver").args
	i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, flag) })
	if i < 0 {
		return ""
	}
	files := w.nodes["c-control-plane"].files
	text, ours := files[strings.TrimPrefix(args[i], flag)]
	if !ours {
		return ""
	}
	var config authorization
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		panic(err)
	}
	if len(config.Authorizers) != 3 || config.Authorizers[1].Type != "Node" || config.Authorizers[2].Type != "RBAC" {
		panic(fmt.Sprintf("the API server has the authorizers %+v", config.Authorizers))
	}
	hook := config.Authorizers[0].Webhook
	asked := slices.ContainsFunc(strings.Split(url, "/"), func(part string) bool {
		return strings.Contains(hook.MatchConditions[3].Expression, fmt.Sprintf("%q", part))
	})
	if !asked || hook.FailurePolicy != "Deny" || !strings.Contains(hook.MatchConditions[0].Expression, user) {
		return ""
	}
	_, server, _ := strings.Cut(files[hook.ConnectionInfo.KubeConfigFile], `server: "`)
	server, _, _ = strings.Cut(server, `"`)
	return server
}

// TestARejectionThatOthersEndIsFound restarts the API server as before during the hold, or takes its webhook away.
func TestARejectionThatOthersEndIsFound(t *testing.T) {
	def := controlplane.APIReject()
	for says, end := range map[string]func(w *world){
		"runs without --authorization-config": func(w *world) {
			w.static("kube-apiserver").args = []string{"kube-apiserver", "--authorization-mode=Node,RBAC"}
		},
		"does not fail": func(w *world) {
			delete(w.nodes["c-control-plane"].files, "/etc/kubernetes/pki/seatrial-r1-1.conf")
		},
	} {
		inWorld(t, def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
			_, err := faulttest.Run(t.Context(), def, b, func(f history.Fault) {
				if f.Stage == history.StageConfirmed {
					w.mu.Lock()
					defer w.mu.Unlock()
					end(w)
				}
			})
			if stageOf(err) != "hold" || !strings.Contains(err.Error(), says) {
				t.Errorf("got %v, want an error of hold: %s", err, says)
			}
		})
	}
}

// TestWhoMayNotAskInTheKubeletsNameConfirmsNothing has the API server forbid the harness to impersonate.
func TestWhoMayNotAskInTheKubeletsNameConfirmsNothing(t *testing.T) {
	def := controlplane.APIReject()
	inWorld(t, def, func(w *world) { w.forbids = true }, func(t *testing.T, _ *world, b faulttest.Bench) {
		_, err := faulttest.Run(t.Context(), def, b, nil)
		if err == nil || !strings.Contains(err.Error(), "cannot impersonate") {
			t.Errorf("got %v", err)
		}
	})
}

// TestNobodyWaitsForASchedulerWithoutItsLease has the requests about the scheduler's own lease fail.
func TestNobodyWaitsForASchedulerWithoutItsLease(t *testing.T) {
	def := controlplane.APIReject()
	inWorld(t, def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		b.Spec.Params = plan.Params{"of": "scheduler", "resources": []string{"leases"}}
		_, err := faulttest.Run(t.Context(), def, b, func(f history.Fault) {
			if took := time.Since(w.begin); f.Stage == history.StageInjected && took > time.Minute {
				t.Errorf("the act took %s", took)
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestAnAPIServerThatIsConfiguredOtherwiseIsLeftAlone has none of kubeadm's modes.
func TestAnAPIServerThatIsConfiguredOtherwiseIsLeftAlone(t *testing.T) {
	def := controlplane.APIReject()
	for _, args := range []string{"--authorization-config=/theirs", "--authorization-mode=Node,Webhook,RBAC"} {
		change := func(w *world) {
			files, name := w.nodes["c-control-plane"].files, undo.ManifestDir+"kube-apiserver.yaml"
			files[name] = strings.Replace(files[name], "--authorization-mode=Node,RBAC", args, 1)
		}
		inWorld(t, def, change, func(t *testing.T, w *world, b faulttest.Bench) {
			_, err := faulttest.Run(t.Context(), def, b, nil)
			if stageOf(err) != "inject" || !strings.Contains(err.Error(), "want Node and RBAC") {
				t.Errorf("%s: got %v", args, err)
			}
			now := w.nodes["c-control-plane"].files[undo.ManifestDir+"kube-apiserver.yaml"]
			if !strings.Contains(now, args) || strings.Contains(now, "seatrial") {
				t.Errorf("%s: the manifest was changed to %s", args, now)
			}
		})
	}
}
