package trial

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
)

// permission is what a trial on an existing cluster may do with objects of the API.
type permission struct {
	group, resource string
	verbs           string // With blanks between them.
	why             string
	needed          bool
}

// permissions lists what a plan needs of the API, apart from the objects in manifests of the user's. Where
// kubeadm made the control-plane node, its own kubeconfig undoes faults of API objects, so less is used.
func permissions(parts Parts, p plan.Plan) []permission {
	const coordination, storage, always = "coordination.k8s.io", "storage.k8s.io", true
	fault := func(names ...string) bool {
		return slices.ContainsFunc(faultsOf(p), func(f plan.Fault) bool { return slices.Contains(names, f.Name) })
	}
	does := func(actions ...plan.Action) bool {
		return slices.ContainsFunc(p.AllSteps(), func(s plan.Step) bool { return slices.Contains(actions, s.Do) })
	}
	x := p.Workload.External
	own := x == nil
	made := own || x.Namespace == "" // The set is the trial's to remove.
	secret := !own && x.Secret != nil
	mesh := slices.Contains(needs(parts, p), needChaosMesh)
	return []permission{
		{"", "namespaces", "get list create delete",
			"the agents' namespace, which allows privileged pods, and the trial's own", always},
		{"", "pods", "get list watch create delete",
			"an agent's pod for each node; the workload's pods, which steps delete; all pods of a struck node", always},
		{"", "pods", "deletecollection", "the workload's pods, at the end", made},
		{"", "pods/exec", "get create", "channel A: set up the agent on a node; exec steps", always},
		{"", "pods/log", "get", "the servers' logs, kept as evidence", own},
		{"", "nodes", "get list watch", "what nodes can do, and whether they are Ready", always},
		{coordination, "leases", "get list watch create update delete",
			"the lock against other harnesses, in kube-system; whether kubelets renew theirs, in kube-node-lease",
			always},
		{"discovery.k8s.io", "endpointslices", "list", "where the API servers are", always},
		{"", "events", "list watch", "recorded: what the control plane says", always},
		{"", "persistentvolumeclaims", "list watch", "recorded", always},
		{"", "persistentvolumeclaims", "deletecollection", "the workload's claims, at the end", made},
		{"", "persistentvolumeclaims", "get delete", "claims that steps or the fault claim-delete delete",
			does(plan.ActionDeleteClaim) || fault("claim-delete")},
		{"", "persistentvolumeclaims", "get", "the volume of each database of a topology",
			own && p.Workload.Grouped()},
		{"", "persistentvolumes", "get list watch", "recorded; whether volumes are bound", always},
		{"", "persistentvolumes", "create delete", "the workload's local volumes", own},
		{"", "persistentvolumes", "update", "local volumes that are made available again", does(plan.ActionRecycle)},
		{"apps", "statefulsets", "get list watch", "recorded: the set under test", always},
		{"apps", "statefulsets", "create", "make the set under test", own || does(plan.ActionCreateSet)},
		{"apps", "statefulsets", "delete", "remove the set under test", made || does(plan.ActionDeleteSet)},
		{"apps", "statefulsets", "update", "update the set under test, and end it",
			made || does(plan.ActionPartition, plan.ActionUpdate, plan.ActionRollback)},
		{"apps", "statefulsets/scale", "patch", "scale the set under test", does(plan.ActionScale)},
		{"apps", "controllerrevisions", "list watch", "recorded: revisions of the set", always},
		{storage, "storageclasses", "list watch", "recorded", always},
		{storage, "storageclasses", "create delete", "the class of the workload's local volumes", own},
		{storage, "volumeattachments", "list watch", "recorded: which volume is attached to which node", always},
		{"", "resourcequotas", "list", "what a trial may leave behind", always},
		{"", "services", "create", "the workload's Service", own},
		{"policy", "poddisruptionbudgets", "create", "the workload's budget", p.Workload.MinAvailable > 0},
		{"", "secrets", "get", "the login that the workload file names", secret},
		{"", "services", "list", "fault dns-block: the cluster's DNS", fault("dns-block")},
		{"", "pods/eviction", "create", "fault drain", fault("drain")},
		{"", "nodes", "update patch", "faults cordon, drain, out-of-service: set and remove marks on the Node",
			fault("cordon", "drain", "out-of-service")},
		{"", "nodes", "delete", "fault node-delete", fault("node-delete")},
		{storage, "csinodes", "get", "fault node-delete: what must come back", fault("node-delete")},
		{"", "resourcequotas", "get create delete", "fault pod-quota", fault("pod-quota")},
		{"", "users", "impersonate", "fault api-reject: ask as its victim does", fault("api-reject")},
		{"", "groups", "impersonate", "fault api-reject: the same", fault("api-reject")},
		{"chaos-mesh.org", "*", "get list create delete", "experiments that are left to Chaos Mesh", mesh},
		{"apps", "deployments", "list", "whether Chaos Mesh runs", mesh},
	}
}

// WriteRole writes the ClusterRole that a user needs to carry a plan out on an existing cluster. It is no Role, since
// the names of the trial's namespaces are drawn.
func WriteRole(w io.Writer, parts Parts, p plan.Plan) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# The least that scenario %q needs on an existing cluster, with the reason for each verb.
# It is much: whoever may make privileged pods and call pods/exec is root on every node.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: seatrial-trial
rules:
`, p.Scenario)
	for _, one := range permissions(parts, p) {
		if !one.needed {
			continue
		}
		fmt.Fprintf(&b, "# %s\n- apiGroups: [%q]\n  resources: [%q]\n  verbs: [%s]\n", one.why, one.group, one.resource,
			strings.ReplaceAll(one.verbs, " ", ", "))
	}
	if x := p.Workload.External; x != nil && x.Namespace == "" {
		b.WriteString("# Objects in the workload's manifests are not listed: add get, create and delete of them.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
