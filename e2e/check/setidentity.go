package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetIdentity judges what a pod has from its ordinal: its name, its DNS name, its claims, their volumes, and the nodes
// that these allow. PodIdentity judges the real processes.
//
// The API server never has two objects of one name, so two pods of one ordinal only show that the record is incomplete.
func SetIdentity() Check {
	return ofSets(Check{
		Name: "set-identity",
		When: Continuous,
		Promise: "Name, DNS name, claims and volumes stick to the ordinal: one pod at a time, its own claims, each " +
			"bound to one volume for good, on a node the volume allows.",
		Source: "Kubernetes documentation, StatefulSets, Pod Identity; Persistent Volumes, Binding; " +
			"pkg/controller/statefulset, initIdentity and updateStorage",
		Unit: "pods and claims",
	}, []string{world.PodsObserver, world.SetsObserver, world.ClaimsObserver, world.VolumesObserver,
		world.NodesObserver}, judgeSetIdentity)
}

func judgeSetIdentity(j *setJudge) {
	placed := map[*world.PodLife]bool{}
	j.walk(func(p *world.PodState, now map[int]*world.PodState) {
		j.identify(p, now[p.Life.Ordinal])
		if p.Spec.NodeName != "" && !placed[p.Life] {
			placed[p.Life] = true
			j.fits(p)
		}
	})
	j.bindings()
	j.twins()
}

// identify judges a state of a pod; old is the previous state of its ordinal.
func (j *setJudge) identify(p, old *world.PodState) {
	l := p.Life
	var before *world.Pod
	what := ""
	if old != nil {
		before = old.Pod
	}
	if old != nil && old.Life == l && !p.Guessed() && !old.Guessed() {
		what = j.goesBack(p, old)
		if old.Spec.NodeName != "" && p.Spec.NodeName != old.Spec.NodeName {
			j.blame(p, old, "Pod %s (uid %s) was on node %s and at %s on %q: no pod moves.", l.Name, l.UID,
				old.Spec.NodeName, j.when(p.Event), p.Spec.NodeName)
		}
	}
	follows(j, "pod", before, p.Pod, what)
	if p.Made() {
		j.evidence++
		j.names(p)
		j.itsClaims(p)
	}
}

// catchUp is how long after a fault a kubelet may still send an old pod status: it retries every 10 s
// (pkg/kubelet/status, syncPeriod).
const catchUp = 15 * time.Second

// goesBack says what in the status of a pod makes the transition from an earlier state impossible, "" if it is
// possible. A pod with init containers is Pending again while they run in a new sandbox, as after a reboot
// (kubernetes/kubernetes#127793).
func (j *setJudge) goesBack(p, old *world.PodState) string {
	switch {
	case old.Status.Over && !p.Status.Over:
		return "it had succeeded or failed, and had not"
	case p.Status.Ready && !p.Status.Running:
		return "it is Ready and not Running"
	case old.Status.Running && !p.Status.Running && !p.Status.Over && !initializes(p):
		return "it had been Running, and not yet"
	}
	before := history.Span{NotBefore: p.Event.Span.NotBefore.Add(-catchUp), NotAfter: p.Event.Span.NotAfter}
	if p.Deleting() || len(j.trial.FaultsIn(before)) > 0 {
		return ""
	}
	from, _, ok := j.sets.Wall.Between(old.Event.Span)
	return missed(p, old, from, ok)
}

// initializes reports whether init containers of a pod have not all succeeded.
func initializes(p *world.PodState) bool {
	return slices.ContainsFunc(p.Status.InitContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated == nil || c.State.Terminated.ExitCode != 0
	})
}

// folded is how long a change of readiness may last without being sent: a kubelet sends only the newest status of a
// pod, so a change and its reversal before that show up as a new timestamp alone (pkg/kubelet/status, version). A
// container that passes its startup and its readiness probe at once causes this.
const folded = 2 * time.Second

// missed says which change between two states of a pod was not recorded, "" if none: the timestamp of its readiness
// changes exactly when its readiness does. A kubelet that was cut off or restarted may send only its last change, with
// an older timestamp than another component set meanwhile; the caller must exclude that. seen is when old became known,
// in seconds since 1970, if known is set.
func missed(p, old *world.PodState, seen float64, known bool) string {
	switch {
	case old.Status.Turned == 0:
		return ""
	case p.Status.Turned == 0:
		return "its readiness was told of, and no more"
	case p.Status.Turned < old.Status.Turned:
		return "its readiness had changed, and had not yet"
	case p.Status.Turned != old.Status.Turned && p.Status.Ready == old.Status.Ready && known &&
		float64(p.Status.Turned+1)-seen <= folded.Seconds():
		return ""
	case p.Status.Turned != old.Status.Turned && p.Status.Ready == old.Status.Ready:
		return "its readiness had changed twice, and once was not seen"
	case known && p.Status.Ready != old.Status.Ready && seen > float64(p.Status.Turned+1)+world.StampSlack.Seconds():
		return "its readiness has changed, and has the stamp of a time at which it had not"
	}
	return ""
}

// names demands that a created pod has the host name, subdomain and labels of its ordinal.
func (j *setJudge) names(p *world.PodState) {
	l, states := p.Life, j.acted(p)
	if len(states) == 0 {
		j.unknown("pod %s was made at %s, before its StatefulSet was known", l.Name, j.when(p.Event))
		return
	}
	label, index := p.Meta.Labels[appsv1.StatefulSetPodNameLabel], p.Meta.Labels[appsv1.PodIndexLabel]
	blame := func(format string, args ...any) {
		j.blame(p, nil, "Pod %s was made at %s with the %s.", l.Name, j.when(p.Event), fmt.Sprintf(format, args...))
	}
	switch {
	case p.Spec.Hostname != l.Name:
		blame("host name %q", p.Spec.Hostname)
	case !slices.ContainsFunc(states, func(st *world.StatefulSet) bool {
		return st.Spec.Demand.Service == p.Spec.Subdomain
	}):
		blame("subdomain %q; its StatefulSet's service is %q: it has another DNS name", p.Spec.Subdomain,
			states[0].Spec.Demand.Service)
	case label != l.Name:
		blame("label statefulset.kubernetes.io/pod-name %q", label)
	case index != "" && index != strconv.Itoa(l.Ordinal): // The label came with Kubernetes 1.28.
		blame("label apps.kubernetes.io/pod-index %q", index)
	}
}

// itsClaims demands that a created pod uses its own claim of each template, and no other ordinal's.
func (j *setJudge) itsClaims(p *world.PodState) {
	states := j.acted(p)
	if len(states) == 0 {
		return
	}
	for _, template := range states[0].Spec.Templates {
		want := world.ClaimUse{Volume: template, Claim: template + "-" + p.Life.Name}
		if !slices.Contains(p.Life.Claims, want) {
			j.blame(p, nil, "Pod %s was made at %s and its volume %s is not the claim %s, its ordinal's own.",
				p.Life.Name, j.when(p.Event), template, want.Claim)
		}
	}
	for _, c := range p.Life.Claims {
		owner, _, ok := world.OrdinalOf(c.Claim)
		if ok && !strings.HasSuffix(c.Claim, "-"+p.Life.Name) && strings.HasSuffix(owner, "-"+j.set.Name) {
			j.blame(p, nil, "Pod %s was made at %s with the claim %s, which is another ordinal's.", p.Life.Name,
				j.when(p.Event), c.Claim)
		}
	}
}

// fits demands that a pod is on a node that the volumes of its claims allow. A pod whose volume's node is gone must
// stay Pending.
func (j *setJudge) fits(p *world.PodState) {
	for _, c := range p.Life.Claims {
		claim := j.claimAt(world.Key(p.Life.Namespace, c.Claim), p.Version)
		if claim == nil || claim.Spec.VolumeName == "" {
			continue // Bound later or not seen; bindings judges what it is bound to.
		}
		v := j.volumeAt(claim.Spec.VolumeName, p.Version)
		if v == nil || v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
			continue
		}
		j.evidence++
		if !j.allows(v, p.Spec.NodeName) {
			j.breaks("pod "+p.Life.Name, p.Event.Span, []int64{p.Event.ID, claim.Event.ID, v.Event.ID}, "Pod %s was "+
				"put on node %s at %s, which its volume %s (claim %s) does not allow.", p.Life.Name, p.Spec.NodeName,
				j.when(p.Event), v.Name(), c.Claim)
		}
	}
}

// bindings demands that a claim keeps its volume and a volume its claim.
func (j *setJudge) bindings() {
	volumes := map[string]string{} // The claim that is bound to each in the end, "" if none is.
	for _, key := range keys(j.objects.Claims.ByKey) {
		if _, ok := j.set.ClaimOrdinal(key); !ok {
			continue
		}
		j.evidence++
		var old *world.Claim
		for _, c := range j.objects.Claims.ByKey[key] {
			if j.late(c.Event) || c.Guessed() {
				continue
			}
			same, name := old != nil && old.UID() == c.UID(), c.Name()
			if same && old.Spec.VolumeName != "" && c.Spec.VolumeName != old.Spec.VolumeName {
				j.breaks("claim "+name, c.Event.Span, []int64{old.Event.ID, c.Event.ID}, "Claim %s was bound to "+
					"volume %s and at %s to %q.", name, old.Spec.VolumeName, j.when(c.Event), c.Spec.VolumeName)
			}
			if same && (bound(old) && !bound(c) && !c.Deleting() || old.Deleting() && !c.Deleting()) {
				j.unknown("claim %s at %s makes an impossible transition: it was bound, or its end was asked for, and "+
					"it is so no more", name, j.when(c.Event))
			}
			if c.Spec.VolumeName != "" && !c.Deleted() {
				volumes[c.Spec.VolumeName] = name
			} else if old != nil && volumes[old.Spec.VolumeName] == name {
				volumes[old.Spec.VolumeName] = ""
			}
			old = c
		}
	}
	for _, volume := range keys(volumes) {
		if len(j.objects.Volumes.ByKey[volume]) == 0 && volumes[volume] != "" {
			j.unknown("claim %s is bound to volume %s, which was never seen", volumes[volume], volume)
		}
		j.boundVolume(volume, volumes[volume])
	}
	j.alone()
}

// boundVolume adds a reason if the record of a claim's volume is incomplete.
func (j *setJudge) boundVolume(volume, claim string) {
	var old *world.Volume
	for _, v := range j.objects.Volumes.ByKey[volume] {
		if j.late(v.Event) || v.Guessed() {
			break
		}
		follows(j, "volume", old, v, impossible(old, v))
		old = v
	}
	unbound := old != nil && !old.Deleted() &&
		(old.Spec.ClaimRef == nil || old.Status.Phase == corev1.VolumeAvailable)
	if unbound && claim != "" && !j.watch.Blind(j.trial.Start, j.until, world.VolumesObserver) {
		j.unknown("claim %s is bound to volume %s, which does not say so", claim, volume)
	}
}

// impossible says what in the binding of a volume makes the transition between two states impossible, "" if it is
// possible.
func impossible(old, v *world.Volume) string {
	switch {
	case old == nil || old.UID() != v.UID():
	case old.Status.Phase == corev1.VolumeBound && v.Status.Phase == corev1.VolumeAvailable,
		old.Spec.ClaimRef != nil && old.Status.Phase != corev1.VolumeReleased && v.Spec.ClaimRef == nil:
		return "it had been bound to a claim, and not yet"
	case old.Status.Phase != corev1.VolumePending && v.Status.Phase == corev1.VolumePending:
		return "it had been there to be bound, and not yet"
	}
	return ""
}

// alone demands that no two claims have one volume at the same time.
func (j *setJudge) alone() {
	holders := map[string]*world.Claim{} // By volume.
	claims := slices.SortedStableFunc(slices.Values(j.objects.Claims.All),
		func(a, b *world.Claim) int { return cmp.Compare(a.Version, b.Version) })
	for _, c := range claims {
		if _, ok := j.set.ClaimOrdinal(c.Key()); !ok || j.late(c.Event) {
			continue
		}
		maps.DeleteFunc(holders, func(_ string, held *world.Claim) bool { return c.Deleted() && held.UID() == c.UID() })
		volume := c.Spec.VolumeName
		if c.Deleted() || volume == "" || !bound(c) {
			continue
		}
		other := holders[volume]
		holders[volume] = c
		unseen := func(o *world.Claim) bool { return o.UID() == other.UID() && o.Guessed() }
		if other == nil || other.Name() == c.Name() || slices.ContainsFunc(claims, unseen) ||
			!j.first("volume", volume) {
			continue
		}
		j.breaks("volume "+volume, c.Event.Span, []int64{other.Event.ID, c.Event.ID},
			"Volume %s was bound to claim %s and, at %s, to claim %s too.", volume, other.Name(), j.when(c.Event),
			c.Name())
	}
}

// twins demands that no other pod has the identity of an existing pod of the StatefulSet: its host name and subdomain,
// and so its DNS name, or the label that a Service selects it by.
func (j *setJudge) twins() {
	for _, twin := range j.world.Pods().All {
		if twin.Set == j.set || twin.Namespace != j.set.Namespace {
			continue
		}
		i := slices.IndexFunc(twin.States, func(p *world.PodState) bool { return j.claimedIdentity(p) != "" })
		if i < 0 || j.late(twin.States[i].Event) {
			continue
		}
		p := twin.States[i]
		parent, ordinal, ok := world.OrdinalOf(j.claimedIdentity(p))
		if !ok || parent != j.set.Name {
			continue
		}
		for _, l := range j.set.ByOrdinal[ordinal] {
			if max(l.First.Version, p.Version) >= min(l.Until(), twin.Until()) {
				continue
			}
			j.breaks("pod "+l.Name, p.Event.Span, []int64{p.Event.ID, l.First.Event.ID}, "Pod %s (uid %s), which no "+
				"StatefulSet made, had the identity of pod %s (uid %s) from %s on, while that was there: two pods "+
				"have one name in the DNS, or one label.", twin.Name, twin.UID, l.Name, l.UID, j.when(p.Event))
			break
		}
	}
}

// claimedIdentity returns the name of the other pod whose identity a pod has by its label, or by its host name in the
// domain of the StatefulSet's service, "" if none.
func (j *setJudge) claimedIdentity(p *world.PodState) string {
	switch labelled := p.Meta.Labels[appsv1.StatefulSetPodNameLabel]; {
	case labelled != "" && labelled != p.Name():
		return labelled
	case p.Spec.Hostname != "" && p.Spec.Hostname != p.Name() && p.Spec.Subdomain != "" &&
		slices.ContainsFunc(j.set.Versions, func(st *world.StatefulSet) bool {
			return st.Spec.Demand.Service == p.Spec.Subdomain
		}):
		return p.Spec.Hostname
	}
	return ""
}
