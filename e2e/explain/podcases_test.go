package explain_test

import "github.com/seatrial/seatrial/e2e/explain"

func podTales() []tale {
	return []tale{
		{name: "quota", tell: func(w *maker) {
			w.up(2, 0, 1)
			w.notice(10, "StatefulSet", "web", "FailedCreate", `create Pod web-2 in StatefulSet web failed error: `+
				`pods "web-2" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2`)
		}, action: explain.ActionCreate, ordinal: 2, blocker: "web-2", outlook: explain.Permanent,
			says: []string{"creating web-2 was refused, last at +10.0 s"}},
		{name: "refused-otherwise", tell: func(w *maker) {
			w.notice(10, "StatefulSet", "web", "FailedCreate", `create Pod web-0 in StatefulSet web failed error: `+
				`Internal error occurred: failed calling webhook`)
		}, action: explain.ActionCreate, ordinal: 0, blocker: "web-0", outlook: explain.NotKnown},
	}
}

func endTales() []tale {
	return []tale{
		{name: "end-on-dead-node", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.node(20, "worker2", false, nil)
			w.pod(25, 1, podOf{phase: "Running", node: "worker2", made: 2, turned: 20, ending: 25})
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-1", outlook: explain.NotKnown,
			says: []string{"only node worker2 can confirm the end of web-1", "out-of-service"}},
		{name: "end-out-of-service", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.node(20, "worker2", false, m{"taints": []any{m{"key": "node.kubernetes.io/out-of-service",
				"effect": "NoExecute"}}})
			w.pod(25, 1, podOf{phase: "Running", node: "worker2", made: 2, turned: 20, ending: 25})
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-1", outlook: explain.Transient},
		{name: "finalizer", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.pod(20, 1, podOf{phase: "Running", node: "worker2", made: 2, turned: 2, ending: 20,
				finalizers: []any{"example.com/hold"}})
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-1", outlook: explain.Permanent,
			says: []string{"it is held by example.com/hold"}},
		{name: "end-takes-too-long", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.pod(20, 1, podOf{phase: "Running", node: "worker2", made: 2, turned: 2, ending: 20})
			w.notice(52, "Pod", "web-1", "FailedKillPod", "error killing pod: context deadline exceeded")
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-1", outlook: explain.NotKnown,
			says: []string{"error killing pod", "its grace period is over"}},
		{name: "node-deleted", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.drop(20, "nodes", "", "worker2")
			w.pod(21, 1, podOf{phase: "Running", node: "worker2", made: 2, turned: 21})
		}, action: explain.ActionSettle, ordinal: 1, blocker: "web-1", outlook: explain.Transient,
			says: []string{"node worker2 does not exist (since +20.0 s)"}},
		{name: "failed", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.pod(59, 1, podOf{phase: "Failed", node: "worker2", made: 2, turned: 59, reason: "Evicted"})
		}, action: explain.ActionReplace, ordinal: 1, outlook: explain.Transient},
		{name: "failed-and-held", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.pod(20, 1, podOf{phase: "Failed", node: "worker2", made: 2, turned: 20, reason: "Evicted",
				message: "The node was low on resource: memory.", ending: 21, finalizers: []any{"example.com/hold"}})
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-1", outlook: explain.Permanent,
			says: []string{`web-1 has failed (since +20.0 s): "Evicted: The node was low on resource: memory."`}},
		{name: "config-error", tell: func(w *maker) {
			w.pod(3, 0, podOf{phase: "Pending", node: "worker", made: 3, turned: 3,
				containers: waits("CreateContainerConfigError", `secret "web" not found`)})
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-0", outlook: explain.Permanent,
			says: []string{`secret "web" not found`, "web-0 was never Ready"}},
		{name: "starting", tell: func(w *maker) {
			w.pod(50, 0, podOf{phase: "Running", node: "worker", made: 50, turned: 50, containers: runs()})
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-0", outlook: explain.Transient},
		{name: "gates", tell: func(w *maker) {
			w.pod(3, 0, podOf{phase: "Pending", made: 3, turned: 3, condition: m{"type": "PodScheduled",
				"status": "False", "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty " +
					"scheduling gates"}})
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-0", outlook: explain.Permanent},
		{name: "healed-a-moment-ago", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.fault(4, "node-reboot", "worker2", 30, 55)
			w.node(50, "worker2", false, nil)
			w.pod(50, 1, podOf{phase: "Running", node: "worker2", made: 2, turned: 50})
		}, action: explain.ActionSettle, ordinal: 1, blocker: "web-1", outlook: explain.Transient,
			says: []string{"healed only 5.0 s ago"}},
	}
}

func storageTales() []tale {
	pending := podOf{phase: "Pending", made: 20, turned: 20, condition: unscheduled(noNode)}
	return []tale{
		{name: "node-of-volume-gone", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.drop(18, "nodes", "", "worker2")
			w.drop(19, "pods", "trial", "web-1")
			w.pod(20, 1, pending)
		}, action: explain.ActionSettle, ordinal: 1, blocker: "web-1", outlook: explain.Permanent,
			says: []string{"kubernetes.io/hostname In (worker2): none of the 1 node is one",
				"node worker2 was deleted at +18.0 s", "PVC data-web-1 is deleted"}},
		{name: "node-of-volume-cordoned", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.node(18, "worker2", true, m{"unschedulable": true})
			w.drop(19, "pods", "trial", "web-1")
			w.pod(20, 1, pending)
		}, action: explain.ActionSettle, ordinal: 1, blocker: "web-1", outlook: explain.Permanent,
			says: []string{"node worker2 is cordoned (since +18.0 s)"}},
		{name: "cordoned-by-fault", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.fault(1, "cordon", "worker2", 17.9, 0)
			w.node(18, "worker2", true, m{"unschedulable": true})
			w.drop(19, "pods", "trial", "web-1")
			w.pod(20, 1, pending)
			w.set(30, m{"replicas": 1})
			w.set(40, m{"replicas": 2})
		}, action: explain.ActionDelete, ordinal: 2, blocker: "web-1", outlook: explain.Transient,
			says: []string{"step 1, cordon, was carried out on node worker2 at +17.9 s and is still active"}},
		{name: "node-of-volume-dead", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.node(18, "worker2", false, nil)
			w.drop(19, "pods", "trial", "web-1")
			w.pod(20, 1, pending)
		}, action: explain.ActionSettle, ordinal: 1, blocker: "web-1", outlook: explain.NotKnown,
			says: []string{"which only node worker2 may use", "node worker2 is not Ready (since +18.0 s)"}},
	}
}

func volumeTales() []tale {
	pending := podOf{phase: "Pending", made: 20, turned: 20, condition: unscheduled(noNode)}
	return []tale{
		{name: "volume-gone", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.drop(18, "persistentvolumes", "", "pv-1")
			w.claim(18.5, 1, "pv-1", "Lost")
			w.drop(19, "pods", "trial", "web-1")
			w.pod(20, 1, pending)
		}, action: explain.ActionSettle, ordinal: 1, blocker: "web-1", outlook: explain.Permanent,
			says: []string{"bound to PV pv-1, which does not exist (since +18.0 s)"}},
		{name: "claim-unbound", tell: func(w *maker) {
			w.claim(2, 0, "", "Pending")
			w.pod(3, 0, podOf{phase: "Pending", made: 3, turned: 3,
				condition: unscheduled("pod has unbound immediate PersistentVolumeClaims")})
			w.notice(4, "PersistentVolumeClaim", "data-web-0", "ProvisioningFailed", "no volume plugin matched")
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-0", outlook: explain.NotKnown,
			says: []string{"PVC data-web-0 is not bound", "no volume plugin matched"}},
		{name: "storage-full", tell: func(w *maker) {
			for _, phase := range []string{"Bound", "Released"} {
				w.put(1, "persistentvolumes", "", "pv-"+phase, m{"spec": m{"storageClassName": "local",
					"local": m{"path": "/a"}}, "status": m{"phase": phase}})
			}
			w.put(2, "persistentvolumeclaims", "trial", "data-web-0", m{"spec": m{"storageClassName": "local"},
				"status": m{"phase": "Pending"}})
			w.pod(3, 0, podOf{phase: "Pending", made: 3, turned: 3, condition: unscheduled("0/3 nodes are available: " +
				"1 node(s) had untolerated taint(s), 2 node(s) didn't find available persistent volumes to bind.")})
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-0", outlook: explain.Permanent,
			says: []string{"no local volume of its class is available: of 2, 1 are bound and 1 released",
				"until a volume is added, or a released one"}},
		{name: "claim-missing", tell: func(w *maker) {
			w.pod(3, 0, podOf{phase: "Pending", made: 3, turned: 3,
				condition: unscheduled(`persistentvolumeclaim "data-web-0" not found`)})
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-0", outlook: explain.NotKnown},
		{name: "no-room", tell: func(w *maker) {
			w.claim(2, 0, "pv-0", "Bound")
			w.volume(2, "pv-0", "")
			w.pod(3, 0, podOf{phase: "Pending", made: 3, turned: 3,
				condition: unscheduled("0/3 nodes are available: 3 Insufficient cpu.")})
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-0", outlook: explain.NotKnown,
			says: []string{"when a node has room"}},
		{name: "attached-elsewhere", tell: func(w *maker) {
			w.up(2, 0, 1, 2)
			w.volume(3, "pv-1", "")
			w.put(3, "volumeattachments", "", "csi-1", m{"spec": m{"nodeName": "worker2",
				"source": m{"persistentVolumeName": "pv-1"}}, "status": m{"attached": true}})
			w.node(18, "worker2", false, nil)
			w.drop(19, "pods", "trial", "web-1")
			w.pod(20, 1, podOf{phase: "Pending", node: "worker", made: 20, turned: 20,
				containers: waits("ContainerCreating", "")})
			w.notice(22, "Pod", "web-1", "FailedAttachVolume",
				`Multi-Attach error for volume "pv-1" Volume is already exclusively attached to one node`)
		}, action: explain.ActionSettle, ordinal: 1, blocker: "web-1", outlook: explain.Transient,
			says: []string{"PV pv-1, of PVC data-web-1, is still attached to node worker2", "Multi-Attach error",
				"detached by force from a node that is not healthy after 6 min"}},
		{name: "mount-fails", tell: func(w *maker) {
			w.pod(3, 0, podOf{phase: "Pending", node: "worker", made: 3, turned: 3})
			w.notice(22, "Pod", "web-0", "FailedMount", "MountVolume.SetUp failed: exit status 32")
		}, action: explain.ActionCreate, ordinal: 1, blocker: "web-0", outlook: explain.NotKnown,
			says: []string{"MountVolume.SetUp failed"}},
		{name: "stale-claim", tell: func(w *maker) {
			w.up(2, 0, 1)
			w.set(3, m{"persistentVolumeClaimRetentionPolicy": m{"whenScaled": "Delete"}})
			w.put(4, "persistentvolumeclaims", "trial", "data-web-2", m{"metadata": m{
				"deletionTimestamp": stamp(4), "finalizers": []any{"kubernetes.io/pvc-protection"},
				"ownerReferences": []any{m{"kind": "Pod", "name": "web-2", "uid": "old"}}},
				"spec": m{"volumeName": "pv-2"}, "status": m{"phase": "Bound"}})
		}, action: explain.ActionCreate, ordinal: 2, blocker: "web-2", outlook: explain.Transient,
			says: []string{"kubernetes.io/pvc-protection", "whenScaled is Delete"}},
	}
}
