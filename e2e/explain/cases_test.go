package explain_test

import (
	"slices"

	"github.com/seatrial/seatrial/e2e/explain"
)

// tale is one made-up cause and what is to be said of it, 60 s into the trial unless it says otherwise.
type tale struct {
	name    string
	tell    func(w *maker)
	at      float64
	sets    int // How many replicas; 3 when it is 0.
	action  explain.Action
	ordinal int
	blocker string // The first one.
	outlook explain.Outlook
	says    []string
}

const noNode = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match " +
	"PersistentVolume's node affinity."

func causes() []tale {
	return slices.Concat(orderTales(), queueTales(), updateTales(), burstTales(), podTales(), endTales(),
		storageTales(), volumeTales())
}

func orderTales() []tale {
	return []tale{
		{name: "nothing", tell: func(w *maker) { w.up(2, 0, 1, 2) }, action: explain.ActionNone, ordinal: -1},
		{name: "kubelet-killed", tell: func(w *maker) {
			w.up(2, 0, 1)
			w.set(25, m{"replicas": 3})
			w.fault(6, "kubelet-kill", "worker2", 30.9, 0)
			w.node(55, "worker2", false, nil)
			w.pod(55.3, 1, podOf{phase: "Running", node: "worker2", made: 2, turned: 55})
		}, sets: 2, action: explain.ActionCreate, ordinal: 2, blocker: "web-1", outlook: explain.Transient,
			says: []string{"node worker2 is not Ready (since +55.0 s)", "renewed its lease 49.9 s ago",
				"step 6, kubelet-kill, was carried out on node worker2 at +30.9 s and is still active"}},
		{name: "min-ready", tell: func(w *maker) {
			w.spec["minReadySeconds"] = 50
			w.set(1.5, nil)
			w.up(50, 0)
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-0", outlook: explain.Transient,
			says: []string{"not available for another 40.0 s"}},
		{name: "scale-down-behind-image", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.drop(20, "pods", "trial", "web-0")
			w.pod(21, 0, podOf{phase: "Pending", node: "worker", made: 21, turned: 21,
				containers: waits("ImagePullBackOff", "Back-off pulling image \"nowhere:none\"")})
			w.set(30, m{"replicas": 1})
		}, action: explain.ActionDelete, ordinal: 2, blocker: "web-0", outlook: explain.Permanent,
			says: []string{"OrderedReady", `container web waits: ImagePullBackOff: "Back-off pulling`,
				"nothing has moved since +30.0 s (30.0 s)"}},
		{name: "scale-down-behind-end", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.set(50, m{"replicas": 1})
			w.pod(50.5, 2, podOf{phase: "Running", node: "worker", ready: true, made: 2, turned: 2, ending: 50})
		}, action: explain.ActionDelete, ordinal: 1, blocker: "web-2", outlook: explain.Transient,
			says: []string{"killed in 20.0 s", "every higher ordinal is gone"}},
		{name: "scale-down-behind-partition", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.set(50, m{"replicas": 1})
			w.fault(5, "node-partition", "worker", 50.3, 0)
			w.pod(50.5, 2, podOf{phase: "Running", node: "worker", ready: true, made: 2, turned: 2, ending: 50})
		}, action: explain.ActionDelete, ordinal: 1, blocker: "web-2", outlook: explain.Transient,
			says: []string{"over in 20.0 s; node worker has to end it", "step 5 (node-partition) is still active"}},
		{name: "condemned-unhealthy", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.pod(20, 2, podOf{phase: "Running", node: "worker", made: 2, turned: 20, containers: runs()})
			w.pod(20, 1, podOf{phase: "Running", node: "worker2", made: 2, turned: 20, containers: runs()})
			w.set(30, m{"replicas": 1})
		}, action: explain.ActionDelete, ordinal: 2, blocker: "web-1", outlook: explain.NotKnown,
			says: []string{"no lower one is unavailable", "its readiness probe has not passed"}},
	}
}

// queueTales have several pods in the way of one thing.
func queueTales() []tale {
	return []tale{
		{name: "several", tell: func(w *maker) {
			w.up(2, 0, 1, 2, 3)
			w.fault(4, "kubelet-kill", "worker2", 22, 0)
			w.node(50, "worker2", false, nil)
			w.pod(50.2, 0, podOf{phase: "Running", node: "worker2", made: 2, turned: 50})
			w.pod(50.2, 1, podOf{phase: "Running", node: "worker2", made: 2, turned: 50})
			w.pod(51, 2, podOf{phase: "Pending", node: "worker", made: 51, turned: 51,
				containers: waits("ImagePullBackOff", "Back-off pulling image \"nowhere:none\"")})
			w.set(30, m{"replicas": 3})
		}, sets: 4, action: explain.ActionDelete, ordinal: 3, blocker: "web-0", outlook: explain.Permanent,
			says: []string{"pod web-0, not Ready, since +50.2 s",
				"pod web-1, not Ready, since +50.2 s (9.8 s); it comes after web-0",
				"web-2, not Ready, since +51.0 s (9.0 s); it comes after web-1", "and the same as for web-0",
				"looks transient: as far as the fault of step 4",
				"outlook permanent: as far as web-2 blocks it: the image cannot be pulled"}},
		{name: "several-end", tell: func(w *maker) {
			w.up(2, 0, 1, 2, 3)
			w.set(40, m{"replicas": 1})
			w.pod(41, 3, podOf{phase: "Running", node: "worker", ready: true, made: 2, turned: 2, ending: 41})
			w.pod(42, 2, podOf{phase: "Running", node: "worker", ready: true, made: 2, turned: 2, ending: 42})
		}, sets: 4, action: explain.ActionDelete, ordinal: 1, blocker: "web-3", outlook: explain.Transient,
			says: []string{"pod web-2, terminating, since +42.0 s (18.0 s); it comes after web-3"}},
	}
}

func updateTales() []tale {
	return []tale{
		{name: "broken-revision", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.drop(20, "pods", "trial", "web-2")
			w.pod(21, 2, podOf{phase: "Running", node: "worker", revision: "web-x", made: 21, turned: 21,
				containers: []any{m{"name": "web", "restartCount": 4, "state": m{"waiting": m{
					"reason": "CrashLoopBackOff", "message": "back-off 1m20s restarting failed container"}},
					"lastState": m{"terminated": m{"exitCode": 1, "reason": "Error"}}}}})
			w.rolls(30)
		}, action: explain.ActionUpdate, ordinal: 2, blocker: "web-2", outlook: explain.Permanent,
			says: []string{"issue 67250", "it has ended 4 times, last with exit code 1", "delete pod web-2"}},
		{name: "partition", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.spec["updateStrategy"] = m{"type": "RollingUpdate", "rollingUpdate": m{"partition": 3}}
			w.rolls(20)
		}, action: explain.ActionNone, ordinal: -1, says: []string{"3 pods of an old revision", "partition 3"}},
		{name: "on-delete", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.spec["updateStrategy"] = m{"type": "OnDelete"}
			w.rolls(20)
		}, action: explain.ActionNone, ordinal: -1, says: []string{"strategy OnDelete"}},
	}
}

func burstTales() []tale {
	return []tale{
		{name: "max-unavailable", tell: func(w *maker) {
			w.spec["podManagementPolicy"] = "Parallel"
			w.spec["updateStrategy"] = m{"type": "RollingUpdate", "rollingUpdate": m{"maxUnavailable": "50%"}}
			w.up(2, 0, 1, 2)
			w.rolls(20)
			w.pod(21, 2, podOf{phase: "Running", node: "worker", revision: "web-b", made: 2, turned: 21,
				containers: runs()})
		}, action: explain.ActionUpdate, ordinal: 1, blocker: "web-2", outlook: explain.NotKnown,
			says: []string{"maxUnavailable"}},
		{name: "parallel-update", tell: func(w *maker) {
			w.spec["podManagementPolicy"] = "Parallel"
			w.up(2, 0, 1, 2)
			w.rolls(20)
			w.pod(21, 2, podOf{phase: "Running", node: "worker", revision: "web-b", made: 2, turned: 21,
				containers: runs()})
			w.notice(58, "Pod", "web-2", "Unhealthy", "Readiness probe failed: no")
		}, action: explain.ActionUpdate, ordinal: 1, blocker: "web-2", outlook: explain.NotKnown,
			says: []string{"from the highest ordinal down",
				`a probe fails, last at +58.0 s: "Readiness probe failed: no"`}},
		{name: "parallel-behind-quota", tell: func(w *maker) {
			w.spec["podManagementPolicy"] = "Parallel"
			w.set(1.5, m{"replicas": 5})
			w.up(2, 0, 1, 2, 3, 4)
			w.drop(30, "pods", "trial", "web-0")
			w.set(30, m{"replicas": 3})
			w.notice(31, "StatefulSet", "web", "FailedCreate", `create Pod web-0 in StatefulSet web failed error: `+
				`pods "web-0" is forbidden: exceeded quota: small, requested: pods=1, used: pods=4, limited: pods=4`)
		}, action: explain.ActionDelete, ordinal: 4, blocker: "web-0", outlook: explain.Permanent,
			says: []string{"while a pod cannot be created", "exceeded quota", "issue 140858"}},
		{name: "manager-killed", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.fault(3, "manager-kill", "control-plane", 20, 0)
			w.gen++
			w.spec["replicas"] = 1
			w.say(21)
		}, action: explain.ActionDelete, ordinal: 2, outlook: explain.Transient,
			says: []string{"has seen generation 1 of 2", "step 3, manager-kill"}},
		{name: "manager-killed-and-back", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.fault(3, "manager-kill", "control-plane", 45, 48)
			w.drop(46, "pods", "trial", "web-2")
		}, action: explain.ActionCreate, ordinal: 2, outlook: explain.Transient,
			says: []string{"healed only 12.0 s ago", "the leader before it acts"}},
		{name: "controller-idle", tell: func(w *maker) { w.up(2, 0, 1, 2); w.set(20, m{"replicas": 1}) },
			action: explain.ActionDelete, ordinal: 2, outlook: explain.NotKnown,
			says: []string{"the controller has not done it for 40.0 s"}},
		{name: "recreate", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.spec["updateStrategy"] = m{"type": "Recreate"}
			w.rolls(20)
			for k := range 3 {
				w.pod(21, k, podOf{phase: "Running", node: "worker", made: 2, turned: 2, ending: 21})
			}
		}, action: explain.ActionUpdate, ordinal: 2, blocker: "web-0", outlook: explain.NotKnown,
			says: []string{"Recreate"}},
		{name: "set-deleted", tell: func(w *maker) {
			w.up(2, 0)
			w.put(20, "statefulsets", "trial", "web", m{"metadata": m{"deletionTimestamp": stamp(20)}, "spec": w.spec})
		}, action: explain.ActionNone, ordinal: -1, says: []string{"is being deleted"}},
	}
}
