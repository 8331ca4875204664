package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

func upgradeMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	more := func(tell func(t *historytest.Trial)) func([]history.Event) []history.Event {
		return func([]history.Event) []history.Event {
			t := historytest.Upgrade()
			tell(t)
			return t.History().Events
		}
	}
	node := func(e *history.Event) bool { return e.Kind == history.KindObject && e.Object.Resource == "nodes" }
	part := func(step int, part history.UpgradePart, end bool) match {
		return func(e *history.Event) bool {
			return e.Kind == history.KindUpgrade && e.Upgrade.Step == step && e.Upgrade.Part == part &&
				e.Upgrade.End == end
		}
	}
	version := func(is string) func(*history.Event) {
		return func(e *history.Event) { e.Version = &history.Version{Component: e.Version.Component, Version: is} }
	}
	answers := kind(history.KindVersion)
	taken := edit(kind(history.KindPlan), func(e *history.Event) {
		const node = `"node":"control-plane"`
		e.Plan = []byte(strings.Replace(string(e.Plan), node, node+`,"back":true`, 1))
	})
	return []mutation{
		{"nothing changed", "upgrade-order", nil, pass, ""},
		{"a kubelet is upgraded first", "upgrade-order", editAll(before(answers, 19.5), version("v1.36.3")), fail,
			"At +17.010 s the kubelet of node control-plane was v1.37.0, which is newer than the API server, v1.36.3."},
		{"a kubelet is four minors behind", "upgrade-order", editAll(after(answers, 30), version("v1.40.0")), fail,
			"was v1.36.3, 4 minor versions older than the API server, v1.40.0."},
		{"three minors behind", "upgrade-order", editAll(after(answers, 30), version("v1.39.0")), pass, ""},
		{"a patch ahead", "upgrade-order", editAll(after(answers, 30), version("v1.37.0-rc.1")), pass, ""},
		{"the API server is silent before the first kubelet", "upgrade-order", drop(before(answers, 18)), unknown,
			"no answer shows that the API server was at v1.37 before the kubelet of node control-plane was"},
		{"the API server is never asked", "upgrade-order", drop(answers), unknown, "never told its version"},
		{"no version", "upgrade-order", edit(answers, version("new")), unknown, `"new", which is none`},
		{"no node is seen", "upgrade-order", drop(node), unknown, "nothing to judge"},
		{"three minors behind when it was deleted", "upgrade-order", more(func(t *historytest.Trial) {
			t.Kubelet("worker3", historytest.From, history.VerbListed, 0.5)
			t.Kubelet("worker3", historytest.From, history.VerbDeleted, 40)
			t.Version("v1.40.0", 48)
		}), pass, ""},
		{"four minors behind while nodes were not seen", "upgrade-order", then(more(func(t *historytest.Trial) {
			t.Observer("api/nodes", "", "", history.ObserverGap, "", 30, 50)
		}), drop(func(e *history.Event) bool {
			return node(e) && e.Object.Name == "worker2" && e.Object.Verb == history.VerbModified
		}), editAll(after(answers, 40), version("v1.40.0"))), unknown,
			"the observer api/nodes was blind at +41.010 s: whether the kubelet of node worker2 was still v1.36.3, 4 " +
				"minor versions older than the API server, v1.40.0, is not known"},
		{"three minors behind while nodes were not seen", "upgrade-order", then(more(func(t *historytest.Trial) {
			t.Observer("api/nodes", "", "", history.ObserverGap, "", 30, 50)
		}), drop(func(e *history.Event) bool {
			return node(e) && e.Object.Name == "worker2" && e.Object.Verb == history.VerbModified
		}), editAll(after(answers, 40), version("v1.39.0"))), pass, ""},
		{"nodes are not watched", "upgrade-order", drop(observer("api/nodes", "", history.ObserverOn)), unknown,
			"api/nodes was never on"},

		{"a node is not drained", "upgrade-order", more(func(t *historytest.Trial) {
			t.Replaced(historytest.To)
		}), fail, "The kubelet of node worker3 was replaced by v1.37.0 between +30.000 s and +31.000 s while " +
			"mysql-1 ran there: the node was not drained."},
		{"not drained for a patch", "upgrade-order", more(func(t *historytest.Trial) {
			t.Replaced("v1.36.9")
		}), pass, ""},
		{"pods end while it is replaced", "upgrade-order", more(func(t *historytest.Trial) {
			t.Replaced(historytest.To)
			t.Evict("mysql-1", 29, 30.2)
			t.Evict("mysql-2", 29, 30.3)
		}), pass, ""},
		{"a pod comes while it is replaced", "upgrade-order", more(func(t *historytest.Trial) {
			t.Replaced(historytest.To)
			t.Evict("mysql-1", 28, 29)
			t.Evict("mysql-2", 28, 29)
			t.Pod(history.VerbAdded, "mysql-1", "Pending", false, false, 29.8)
			t.Pod(history.VerbModified, "mysql-1", "Running", false, false, 30.5)
		}), fail, "while mysql-1 ran there: the node was not drained."},
		{"a pod comes once it has told its version", "upgrade-order", more(func(t *historytest.Trial) {
			t.Replaced(historytest.To)
			t.Evict("mysql-1", 28, 29)
			t.Evict("mysql-2", 28, 29)
			t.Pod(history.VerbAdded, "mysql-1", "Pending", false, false, 31.2)
			t.Pod(history.VerbModified, "mysql-1", "Running", false, false, 31.5)
		}), pass, ""},
		{"the watch was blind when it was replaced", "upgrade-order", more(func(t *historytest.Trial) {
			t.Replaced(historytest.To)
			t.Observer("api/pods", "", "", history.ObserverGap, "", 30.2, 30.5)
		}), unknown, "whether mysql-1 was on node worker3 when its kubelet was replaced is not known"},
		{"nobody recorded the replacement", "upgrade-order", then(more(func(t *historytest.Trial) {
			t.Replaced(historytest.To)
		}), drop(func(e *history.Event) bool {
			return e.Kind == history.KindUpgrade && e.Upgrade.Node == "worker3"
		})), unknown, "when the kubelet of node worker3 was replaced by v1.37.0 was not recorded"},
		{"pods are not watched", "upgrade-order", drop(observer("api/pods", "", history.ObserverOn)), unknown,
			"api/pods was never on: whether nodes were drained is not known"},

		{"nothing changed", "version-reached", nil, pass, ""},
		{"a kubelet goes back", "version-reached", more(func(t *historytest.Trial) {
			t.Kubelet("worker", historytest.From, history.VerbModified, 43)
		}), fail, "At the end the kubelet of node worker is v1.36.3, not v1.37.0."},
		{"a kubelet stays", "version-reached", drop(func(e *history.Event) bool {
			return node(e) && e.Object.Name == "worker2" && e.Object.Verb == history.VerbModified
		}), fail, "At the end the kubelet of node worker2 is v1.36.3, not v1.37.0."},
		{"the API server goes back", "version-reached", editAll(after(answers, 40), version("v1.36.3")), fail,
			"At the end the API server is v1.36.3, not v1.37.0."},
		{"the API server is silent at the end", "version-reached", drop(after(answers, 15)), unknown,
			"did not tell its version after its upgrade had ended"},
		{"killed while a kubelet was replaced", "version-reached", drop(after(kind(history.KindUpgrade), 36.5)),
			unknown, `the upgrade of node worker2 to v1.37.0 stood at "kubelet", which had begun at +36.000 s and ` +
				"was not seen to end"},
		{"a part fails", "version-reached", edit(part(2, history.UpgradeStock, true), func(e *history.Event) {
			u := *e.Upgrade
			u.Error = "no room"
			e.Upgrade = &u
		}), unknown, `node worker to v1.37.0 stood at "stock", which failed at +22.000 s: no room`},
		{"a step never began", "version-reached", drop(func(e *history.Event) bool {
			return e.Kind == history.KindUpgrade && e.Upgrade.Step == 3
		}), unknown, "step 3, worker-2 to v1.37.0, never began"},
		{"no node is seen", "version-reached", then(drop(node), drop(answers)), unknown, "never told its version"},
		{"no kubelet is seen", "version-reached", drop(node), unknown,
			"the kubelet of node worker2, which was upgraded, was never seen"},
		{"nodes are not watched", "version-reached", drop(observer("api/nodes", "", history.ObserverOn)), unknown,
			"api/nodes was never on"},
		{"nodes are not seen at the end", "version-reached", then(more(func(t *historytest.Trial) {
			t.Observer("api/nodes", "", "", history.ObserverGap, "", 36, 50)
		}), drop(func(e *history.Event) bool {
			return node(e) && e.Object.Name == "worker2" && e.Object.Verb == history.VerbModified
		})), unknown, "was blind after it had last shown node worker2"},
		{"a node is gone at the end", "version-reached", more(func(t *historytest.Trial) {
			t.Kubelet("worker3", historytest.From, history.VerbListed, 0.5)
			t.Kubelet("worker3", historytest.From, history.VerbDeleted, 40)
		}), unknown, "node worker3 was gone at the end"},
		{"another node stays as it was", "version-reached", more(func(t *historytest.Trial) {
			t.Kubelet("worker3", "v1.35.1", history.VerbListed, 0.5)
		}), pass, ""},
		{"the control plane is not taken back", "version-reached", taken, fail,
			"At the end the API server is v1.37.0, not v1.36.3."},
		{"its kubelet is not taken back", "version-reached", taken, fail,
			"At the end the kubelet of node control-plane is v1.37.0, not v1.36.3."},
		{"the control plane is taken back", "version-reached", then(taken, editAll(after(answers, 20),
			version("v1.36.3")), drop(func(e *history.Event) bool {
			return node(e) && e.Object.Name == "control-plane" && e.Object.Verb == history.VerbModified
		})), pass, ""},
		{"another node changes", "version-reached", more(func(t *historytest.Trial) {
			t.Kubelet("worker3", "v1.35.1", history.VerbListed, 0.5)
			t.Kubelet("worker3", "v1.36.3", history.VerbModified, 30)
		}), fail, "At the end the kubelet of node worker3 is v1.36.3, not v1.35.1."},

		{"nothing changed", "pdb-honoured", nil, pass, ""},
		{"another was away", "pdb-honoured", more(func(t *historytest.Trial) {
			t.Pod(history.VerbModified, "mysql-1", "Running", false, false, 15)
		}), fail, "mysql-0 was evicted at +25.000 s while 1 other was Running and Ready, and the budget's " +
			"minAvailable is 2."},
		{"another was away for a moment", "pdb-honoured", more(func(t *historytest.Trial) {
			t.Pod(history.VerbModified, "mysql-1", "Running", false, false, 24.5)
		}), pass, ""},
		{"another is back", "pdb-honoured", more(func(t *historytest.Trial) {
			t.Pod(history.VerbModified, "mysql-1", "Running", false, false, 15)
			t.Pod(history.VerbModified, "mysql-1", "Running", true, false, 20)
		}), pass, ""},
		{"two evicted at once", "pdb-honoured", more(func(t *historytest.Trial) {
			t.Evict("mysql-1", 29, 29.5)
			t.Evict("mysql-2", 34, 34.5)
		}), fail, "mysql-2 was evicted at +34.000 s while 1 other was"},
		{"the watch was blind", "pdb-honoured", more(func(t *historytest.Trial) {
			t.Observer("api/pods", "", "", history.ObserverGap, "", 24, 24.5)
		}), unknown, "the observer api/pods was blind then"},
		{"one evicted while Pending and another away", "pdb-honoured", more(func(t *historytest.Trial) {
			t.Pod(history.VerbModified, "mysql-1", "Running", false, false, 35)
			t.Pod(history.VerbModified, "mysql-2", "Pending", false, false, 36)
			t.EvictIn("Pending", "mysql-2", 39, 39.5)
		}), pass, ""},
		{"perhaps evicted in a gap", "pdb-honoured", then(more(func(t *historytest.Trial) {
			t.Evict("mysql-1", 33, 33.5)
		}), drop(pod(history.VerbModified, "mysql-1", 3)), edit(pod(history.VerbDeleted, "mysql-1", 1),
			func(e *history.Event) { e.Object.Raw = nil })), unknown,
			"mysql-1 ended while the observer api/pods was blind"},
		{"nothing was evicted", "pdb-honoured", drop(func(e *history.Event) bool {
			return e.Kind == history.KindObject && strings.Contains(string(e.Object.Raw), "EvictionByEvictionAPI")
		}), unknown, "nothing to judge"},
		{"pods are not watched", "pdb-honoured", drop(observer("api/pods", "", history.ObserverOn)), unknown,
			"api/pods was never on"},
	}
}

func TestUpgradeMutations(t *testing.T) {
	for _, m := range upgradeMutations() {
		t.Run(m.check+"/"+m.name, func(t *testing.T) {
			h := historytest.Upgrade().History()
			if m.change != nil {
				h.Events = m.change(h.Events)
			}
			expect(t, result(t, h, m.check), m.want, m.says)
			slices.Reverse(h.Events) // The order in which facts were recorded changes nothing.
			if again := result(t, h, m.check); m.want == check.Fail && again.Verdict == check.Pass {
				t.Errorf("%s when told backwards", again.Verdict)
			}
		})
	}
}

// TestUpgradeSaysHowToGoOn has the harness killed in each part of a worker's upgrade.
func TestUpgradeSaysHowToGoOn(t *testing.T) {
	const kubelet = "replace kubelet and kubectl, restart the kubelet, and uncordon the node once it is Ready"
	const run = "replace kubeadm, run kubeadm upgrade "
	for part, want := range map[history.UpgradePart]string{
		history.UpgradeStock:   "nothing of the node was changed, begin its upgrade anew",
		history.UpgradeKubeadm: run + "apply v1.37.0 (node on a worker) on the node, drain it, then " + kubelet,
		history.UpgradePlan:    run + "apply v1.37.0 on the node, drain it, then " + kubelet,
		history.UpgradeApply:   run + "apply v1.37.0 on the node, drain it, then " + kubelet,
		history.UpgradeNode:    run + "node on the node, drain it, then " + kubelet,
		history.UpgradeDrain:   "drain the node, then " + kubelet,
		history.UpgradeEmulate: "put the manifests of kube-apiserver, kube-controller-manager and kube-scheduler back",
		history.UpgradeKubelet: kubelet,
		history.UpgradeReady:   kubelet,
		history.UpgradeSettled: "the node is upgraded, wait until the StatefulSet has settled",
	} {
		h := historytest.Upgrade().History()
		h.Events = then(drop(after(kind(history.KindUpgrade), 36.5)), editAll(after(kind(history.KindUpgrade), 35.5),
			func(e *history.Event) { e.Upgrade.Part = part }))(h.Events)
		res := result(t, h, "version-reached")
		whole := result(t, h, "coverage")
		want = fmt.Sprintf("the upgrade of node worker2 to v1.37.0 stood at %q, which had begun at +36.000 s and was "+
			"not seen to end; to go on: %s", part, want)
		says := strings.Join(res.Reasons, "\n")
		if res.Verdict != check.Unknown || !strings.Contains(says, want) {
			t.Errorf("%s: %s, want %q", res.Verdict, says, want)
		}
		if slices.ContainsFunc(whole.Reasons, func(s string) bool { return strings.Contains(s, "stood at") }) {
			t.Errorf("coverage of a step that ended well: %s", whole.Reasons)
		}
		h.Events = drop(phase(history.PhaseStep, 3, true))(h.Events)
		if whole = result(t, h, "coverage"); !slices.Contains(whole.Reasons, "step 3: "+res.Reasons[0]) {
			t.Errorf("coverage: %s, want %q", whole.Reasons, want)
		}
	}
}

// TestUpgradeUnseen holds that an upgrade check never passes without evidence.
func TestUpgradeUnseen(t *testing.T) {
	for _, h := range []history.History{{}, historytest.New(historytest.UpgradePlan()).History()} {
		for _, name := range []string{"upgrade-order", "version-reached", "pdb-honoured"} {
			if res := result(t, h, name); res.Verdict != check.Unknown {
				t.Errorf("%s: %s with %d events", name, res.Verdict, len(h.Events))
			}
		}
	}
}
