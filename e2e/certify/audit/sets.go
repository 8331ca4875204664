package audit

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/e2e/world"
)

// shortGrace is the default of terminationGracePeriodSeconds: few databases write out their memory in less.
const shortGrace = 30

// setRules look at StatefulSets and their data.
func setRules() []Rule {
	return []Rule{
		{
			Name:   "not-steady",
			Looks:  "a StatefulSet lacks replicas, has pods that are not Ready, or is in the middle of a rollout",
			Why:    "an upgrade takes one more pod away, perhaps the last copy or the one that a majority needs",
			Source: "StatefulSets (docs/concepts/workloads/controllers/statefulset/)",
			Fix: "wait, or repair the pod that `seatrial explain --statefulset NAMESPACE/NAME` names; then audit " +
				"again",
			Needs: []Part{Pods, StatefulSets},
			find:  notSteady,
		},
		{
			Name:  "local-volumes",
			Looks: "a pod uses a volume that is on its node only (local, hostPath)",
			Why: "the pod waits until its node is back; if the node is replaced and not upgraded in place, the " +
				"data is gone",
			Source: "Volumes, local (docs/concepts/storage/volumes/)",
			Fix: "upgrade these nodes in place, one at a time, with all other copies of the data there; have a " +
				"backup",
			Needs: []Part{Claims, Pods, Volumes},
			find:  localVolumes,
		},
		{
			Name:  "grace-period",
			Looks: "a StatefulSet with data is killed early (terminationGracePeriodSeconds)",
			Why: "a killed database loses what it had not synced; with 0 s a second one can start while the first " +
				"still writes",
			Source: "StatefulSets, Deployment and Scaling Guarantees " +
				"(docs/concepts/workloads/controllers/statefulset/)",
			Fix:   "set terminationGracePeriodSeconds to the time of a clean shutdown under load, at least 30",
			Needs: []Part{StatefulSets},
			find:  gracePeriod,
		},
		{
			Name:  "reclaim-delete",
			Looks: "the volumes under a StatefulSet are deleted with their claims (reclaimPolicy Delete)",
			Why:   "whoever deletes a claim or its namespace, also by mistake in an upgrade, deletes the data",
			Source: "Change the Reclaim Policy of a PersistentVolume " +
				"(docs/tasks/administer-cluster/change-pv-reclaim-policy/)",
			Fix:   "set persistentVolumeReclaimPolicy of the PersistentVolumes to Retain before the upgrade",
			Needs: []Part{Claims, StatefulSets, Volumes},
			find:  reclaimDelete,
		},
		{
			Name: "claim-retention",
			Looks: "a StatefulSet deletes its claims with itself or when scaled " +
				"(persistentVolumeClaimRetentionPolicy)",
			Why: "scaling the StatefulSet, or recreating it to change an immutable field, deletes claims",
			Source: "KEP-1847; StatefulSets, PersistentVolumeClaim retention " +
				"(docs/concepts/workloads/controllers/statefulset/)",
			Fix:   "set whenDeleted and whenScaled to Retain",
			Needs: []Part{StatefulSets},
			find:  claimRetention,
		},
	}
}

func notSteady(r *ruling) {
	for set := range each(r.StatefulSets) {
		where := []Object{setObject(set)}
		var pods []string
		for _, p := range r.podsOf[setObject(set)] {
			if !ready(p) {
				pods = append(pods, p.Name)
				where = append(where, object("Pod", p))
			}
		}
		var why []string
		if len(pods) > 0 {
			why = append(why, "not Ready: "+names(pods))
		}
		severity := Danger
		rollout := unfinished(set)
		if rollout != "" {
			if len(pods) == 0 && held(set) {
				severity = Warning
			}
			why = append(why, rollout)
		}
		if len(why) > 0 {
			r.found(severity, where, "%s is not steady: %s", where[0], strings.Join(why, "; "))
		}
	}
}

// held reports whether a partition or OnDelete stops a rollout.
func held(set *appsv1.StatefulSet) bool {
	demand, status := world.DemandOf(&set.Spec), set.Status
	return status.ObservedGeneration >= set.Generation && int(status.ReadyReplicas) >= demand.Replicas &&
		int(status.Replicas) == demand.Replicas && (demand.Strategy == world.OnDelete || demand.Partition > 0)
}

// unfinished says what a StatefulSet's controller has still to do, by its status.
func unfinished(set *appsv1.StatefulSet) string {
	want, status := int32(world.DemandOf(&set.Spec).Replicas), set.Status
	switch {
	case status.ObservedGeneration < set.Generation:
		return "its controller has not seen its last change"
	case status.Replicas != want:
		return fmt.Sprintf("it has %d pods of %d", status.Replicas, want)
	case status.ReadyReplicas < want:
		return fmt.Sprintf("%d of %d pods are Ready", status.ReadyReplicas, want)
	case status.UpdateRevision != "" && status.UpdateRevision != status.CurrentRevision:
		return fmt.Sprintf("a rollout is unfinished: %d of %d pods are of its last revision", status.UpdatedReplicas,
			want)
	}
	return ""
}

func localVolumes(r *ruling) {
	type local struct{ pods, volumes []string }
	of := map[Object]*local{}
	var order []Object
	for p := range each(r.Pods) {
		o := ownerOf(p)
		if ended(p) || o.Kind == "DaemonSet" || o.Kind == "Node" { // Pods that a drain leaves alone.
			continue
		}
		volumes := r.localOf(p, o.Kind == "StatefulSet")
		if len(volumes) == 0 {
			continue
		}
		if of[o] == nil {
			of[o], order = &local{}, append(order, o)
		}
		of[o].pods = append(of[o].pods, fmt.Sprintf("%s on %s", p.Name, p.Spec.NodeName))
		of[o].volumes = append(of[o].volumes, volumes...)
	}
	for _, o := range order {
		r.found(Warning, []Object{o}, "the pods of %s cannot move: %s; volumes: %s", o, names(of[o].pods),
			names(of[o].volumes))
	}
}

// localOf returns the pod's volumes that are on one node only. A path of the node in a pod that no StatefulSet owns is
// seldom data, and is left out.
func (s *state) localOf(p *corev1.Pod, paths bool) []string {
	var local []string
	for _, v := range s.volumesOf(p) {
		switch {
		case v.Spec.Local != nil:
			local = append(local, "PersistentVolume "+v.Name+" (local)")
		case v.Spec.HostPath != nil:
			local = append(local, "PersistentVolume "+v.Name+" (hostPath)")
		}
	}
	for _, v := range p.Spec.Volumes {
		if paths && v.HostPath != nil {
			local = append(local, "hostPath "+v.HostPath.Path)
		}
	}
	return local
}

func gracePeriod(r *ruling) {
	for set := range each(r.StatefulSets) {
		grace := set.Spec.Template.Spec.TerminationGracePeriodSeconds
		if !withData(set) || grace == nil || *grace >= shortGrace {
			continue
		}
		severity := Warning
		if *grace <= 0 {
			severity = Danger
		}
		r.found(severity, []Object{setObject(set)}, "%s keeps data in claims and is killed after %d s", setObject(set),
			*grace)
	}
}

func reclaimDelete(r *ruling) {
	for set := range each(r.StatefulSets) {
		where := []Object{setObject(set)}
		var volumes []string
		for _, claim := range r.claimsOf[key(set)] {
			v := r.volumes[claim.Spec.VolumeName]
			if v != nil && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
				volumes, where = append(volumes, v.Name), append(where, object("PersistentVolume", v))
			}
		}
		if len(volumes) > 0 {
			r.found(Warning, where, "%d volumes under %s have reclaimPolicy Delete: %s", len(volumes), where[0],
				names(volumes))
		}
	}
}

func claimRetention(r *ruling) {
	for set := range each(r.StatefulSets) {
		var when []string
		demand := world.DemandOf(&set.Spec)
		if demand.DeleteDeleted {
			when = append(when, "deleted")
		}
		if demand.DeleteScaled {
			when = append(when, "scaled down")
		}
		if len(when) > 0 && len(set.Spec.VolumeClaimTemplates) > 0 {
			r.found(Warning, []Object{setObject(set)}, "%s deletes claims when it is %s", setObject(set),
				strings.Join(when, " or "))
		}
	}
}
