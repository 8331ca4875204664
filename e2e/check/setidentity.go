package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetIdentity judges what of a pod belongs to its ordinal and not to the pod: its name, its DNS name, its claims, their
// volumes, and where those allow it to be. Real processes are PodIdentity's.
//
// The API server lets no two objects have one name: that two pods of one ordinal seem to be there shows that the record
// is not whole.
func SetIdentity() Check {
	return Check{
		Name: "set-identity",
		Promise: "Name, DNS name, claims and volumes stick to the ordinal: one pod at a time, its own claims, each " +
			"bound to one volume for good, on a node the volume allows.",
		Source: "Kubernetes documentation, StatefulSets, Pod Identity; Persistent Volumes, Binding; " +
			"pkg/controller/statefulset, initIdentity and updateStorage",
		Judge: judgeSetIdentity,
	}
}

func judgeSetIdentity(h *world.World) Result {
	watched := []string{
		world.PodsObserver,
		world.SetsObserver,
		world.ClaimsObserver,
		world.VolumesObserver,
		world.NodesObserver,
	}
	return judgeSets(h, "pods and claims", SetIdentity().Promise, watched, func(j *setJudge, set *setLife) {
		placed := map[*podLife]bool{}
		j.walk(set, func(p *podState, now map[int]*podState) {
			if old := now[p.pod.ordinal]; old != nil && old.pod != p.pod && !old.Deleted() && !p.Deleted() {
				j.ruling.unknown("pod %s (uid %s) was never seen to end, and at %s one of its name with uid %s was "+
					"there",
					p.pod.name, old.pod.uid, j.clock(p.Event), p.pod.uid)
			} else if old != nil && old.pod == p.pod {
				j.follows(p, old)
			}
			if verb := p.Event.Object.Verb; p == p.pod.first && verb != history.VerbAdded &&
				verb != history.VerbListed {
				j.ruling.unknown("pod %s was there when it was first seen, at %s: its creation was missed", p.pod.name,
					j.clock(p.Event))
			}
			if p.made() {
				j.ruling.evidence++
				j.names(set, p)
				j.itsClaims(set, p)
			}
			j.stays(p, now[p.pod.ordinal])
			if p.Spec.NodeName != "" && !placed[p.pod] {
				placed[p.pod] = true
				j.placed(p)
			}
		})
		j.bindings(set)
		j.twins(set)
	})
}

// catchUp is how long a kubelet may take, after a fault, to tell what it could not tell before: it tries again every
// 10 s (pkg/kubelet/status, syncPeriod).
const catchUp = 15 * time.Second

// follows says what in a state of a pod shows that the record of it is not whole.
func (j *setJudge) follows(p, old *podState) {
	what := p.contradicts(old)
	before := history.Span{NotBefore: p.Event.Span.NotBefore.Add(-catchUp), NotAfter: p.Event.Span.NotAfter}
	if what == "" && !p.Deleting() && len(j.scene.FaultsIn(before)) == 0 {
		from, _, ok := j.watch.wall.between(old.Event.Span)
		what = p.missed(old, from, ok)
	}
	if what != "" {
		j.ruling.unknown("pod %s (uid %s) at %s is not what it can be after what it was: %s", p.pod.name, p.pod.uid,
			j.clock(p.Event), what)
	}
}

// names holds that a pod has the names of its ordinal. What is set only at creation is judged at creation.
func (j *setJudge) names(set *setLife, p *podState) {
	l := p.pod
	states := set.around(p.Version, j.since(p.Event.Span))
	if len(states) == 0 {
		j.ruling.unknown("pod %s was made at %s, before its StatefulSet was known", l.name, j.clock(p.Event))
		return
	}
	services := make([]string, 0, len(states))
	for _, st := range states {
		services = append(services, st.Spec.Demand.Service)
	}
	switch {
	case l.hostname != l.name:
		j.blame(p, fmt.Sprintf("Pod %s was made at %s with the host name %q.", l.name, j.clock(p.Event), l.hostname))
	case !slices.Contains(services, l.subdomain):
		j.blame(p, fmt.Sprintf("Pod %s was made at %s with the subdomain %q; its StatefulSet's service is %q: it "+
			"has another DNS name.", l.name, j.clock(p.Event), l.subdomain, states[0].Spec.Demand.Service))
	case l.labelled != l.name:
		j.blame(p, fmt.Sprintf("Pod %s was made at %s with the label statefulset.kubernetes.io/pod-name %q.", l.name,
			j.clock(p.Event), l.labelled))
	case l.index != "" && l.index != strconv.Itoa(l.ordinal): // The label came with Kubernetes 1.28.
		j.blame(p, fmt.Sprintf("Pod %s was made at %s with the label apps.kubernetes.io/pod-index %q.", l.name,
			j.clock(p.Event), l.index))
	}
}

// itsClaims holds that a pod has a claim of its own from each template.
func (j *setJudge) itsClaims(set *setLife, p *podState) {
	states := set.around(p.Version, j.since(p.Event.Span))
	if len(states) == 0 {
		return
	}
	for _, template := range states[0].Spec.Templates {
		want := world.ClaimUse{Volume: template, Claim: template + "-" + p.pod.name}
		if !slices.Contains(p.pod.claims, want) {
			j.blame(p, fmt.Sprintf("Pod %s was made at %s and its volume %s is not the claim %s, its ordinal's own.",
				p.pod.name, j.clock(p.Event), template, want.Claim))
		}
	}
	for _, c := range p.pod.claims {
		owner, _, ok := ordinalOf(c.Claim)
		own := strings.HasSuffix(c.Claim, "-"+p.pod.name)
		if ok && !own && strings.HasSuffix(owner, "-"+set.name) {
			j.blame(p, fmt.Sprintf("Pod %s was made at %s with the claim %s, which is another ordinal's.", p.pod.name,
				j.clock(p.Event), c.Claim))
		}
	}
}

// stays holds that a pod does not move: its node is set once.
func (j *setJudge) stays(p, old *podState) {
	if old == nil || old.pod != p.pod || p.Guessed() || old.Guessed() || old.Spec.NodeName == "" ||
		p.Spec.NodeName == old.Spec.NodeName {
		return
	}
	j.blame(p, fmt.Sprintf("Pod %s (uid %s) was on node %s and at %s on %q: no pod "+
		"moves.", p.pod.name, p.pod.uid, old.Spec.NodeName,
		j.clock(p.Event), p.Spec.NodeName), old)
}

// placed holds that a pod is on a node that the volumes of its claims allow. A pod whose volume's node is gone can be
// nowhere: it stays Pending.
func (j *setJudge) placed(p *podState) {
	for _, c := range p.pod.claims {
		claim := j.watch.claimAt(p.Event.Object.Namespace+"/"+c.Claim, p.Version)
		if claim == nil || claim.Spec.VolumeName == "" {
			continue // Bound later, or not seen: then where it is bound to is judged.
		}
		v := j.watch.volumeAt(claim.Spec.VolumeName, p.Version)
		if v == nil || v.nodes == nil {
			continue
		}
		labels, ok := j.watch.labelsOf(p.Spec.NodeName)
		if !ok {
			labels = map[string]string{"kubernetes.io/hostname": p.Spec.NodeName} // What a kubelet calls itself.
		}
		j.ruling.evidence++
		if !v.allows(p.Spec.NodeName, labels) {
			j.breach("pod "+p.pod.name, p.Event.Span, fmt.Sprintf("Pod %s was put on node %s at %s, which its "+
				"volume %s "+
				"(claim %s) does not allow.", p.pod.name, p.Spec.NodeName, j.clock(p.Event), v.Name(), c.Claim),
				p.Event.ID,
				claim.Event.ID, v.Event.ID)
		}
	}
}

// bindings holds that a claim keeps its volume, and a volume its claim.
func (j *setJudge) bindings(set *setLife) {
	byVolume, volumes := map[string]*claimState{}, map[string]string{}
	for _, key := range keys(j.watch.claims) {
		if !set.has(key) {
			continue
		}
		j.ruling.evidence++
		var old *claimState
		for _, c := range j.watch.claims[key] {
			if c.Event.Span.NotBefore > j.until || c.Guessed() {
				continue
			}
			name := key[strings.Index(key, "/")+1:]
			if old != nil && old.UID() == c.UID() && old.Spec.VolumeName != "" &&
				c.Spec.VolumeName != old.Spec.VolumeName {
				j.breach("claim "+name, c.Event.Span, fmt.Sprintf("Claim %s was bound to volume %s and at %s to "+
					"%q.", name,
					old.Spec.VolumeName, j.clock(c.Event), c.Spec.VolumeName), old.Event.ID, c.Event.ID)
			}
			if old != nil && old.UID() == c.UID() &&
				(old.bound() && !c.bound() && !c.Deleting() || old.Deleting() && !c.Deleting()) {
				j.ruling.unknown("claim %s at %s is not what it can be after what it was: it was bound, or its end "+
					"was asked for, and it is so no more", name, j.clock(c.Event))
			}
			if c.Spec.VolumeName != "" {
				j.alone(name, c, byVolume)
				volumes[c.Spec.VolumeName] = name
			}
			old = c
		}
	}
	for _, volume := range keys(volumes) {
		j.told(volume, volumes[volume])
	}
}

// told holds that what was told of a volume that a claim has is whole.
func (j *setJudge) told(volume, claim string) {
	var old *volumeState
	for _, v := range j.watch.volumes[volume] {
		if j.late(v.Event) || v.Guessed() {
			break
		}
		verb, what := v.Event.Object.Verb, ""
		switch {
		case old == nil && verb != history.VerbAdded && verb != history.VerbListed:
			what = "its creation was missed"
		case old == nil:
		case old.UID() != v.UID() && !old.Deleted():
			what = "one of its name had been there, and its end was missed"
		case old.UID() == v.UID() && old.Deleted():
			what = "it had ended"
		case old.UID() == v.UID() && old.Status.Phase == "Bound" && v.Status.Phase == "Available",
			old.UID() == v.UID() && old.claim != "" && old.Status.Phase != "Released" && v.claim == "":
			what = "it had been bound to a claim, and not yet"
		case old.UID() == v.UID() && old.Status.Phase != "Pending" && v.Status.Phase == "Pending":
			what = "it had been there to be bound, and not yet"
		}
		if what != "" {
			j.ruling.unknown("volume %s at %s is not what it can be after what it was: "+
				"%s", volume, j.clock(v.Event), what)
		}
		old = v
	}
	unbound := old != nil && !old.Deleted() && (old.claim == "" || old.Status.Phase == "Available")
	if unbound && !j.watch.blind(j.scene.Start, j.until, world.VolumesObserver) {
		j.ruling.unknown("claim %s is bound to volume %s, which does not say so", claim, volume)
	}
}

// alone holds that no two claims that are there at one time have one volume.
func (j *setJudge) alone(name string, c *claimState, byVolume map[string]*claimState) {
	other := byVolume[c.Spec.VolumeName]
	byVolume[c.Spec.VolumeName] = c
	if other == nil || other.Event.Object.Name == name || !other.bound() || !c.bound() {
		return
	}
	end := j.watch.claimEnd(other.Event.Object.Namespace+"/"+other.Event.Object.Name, other.UID())
	ended := end != nil && (end.Version < c.Version || end.Guessed())
	if ended || c.Version < other.Version {
		return
	}
	j.breach(
		"volume "+c.Spec.VolumeName,
		c.Event.Span,
		fmt.Sprintf("Volume %s was bound to claim %s and, at %s, to claim "+
			"%s too.",
			c.Spec.VolumeName, other.Event.Object.Name, j.clock(c.Event), name),
		other.Event.ID,
		c.Event.ID,
	)
}

// has reports whether a claim's name, with its namespace, is that of an ordinal of the StatefulSet.
func (s *setLife) has(claim string) bool {
	_, ok := s.ordinal(claim)
	return ok
}

// ordinal returns whose claim it is: TEMPLATE-NAME-ORDINAL.
func (s *setLife) ordinal(claim string) (int, bool) {
	name, ok := strings.CutPrefix(claim, s.namespace+"/")
	if !ok {
		return 0, false
	}
	head, ordinal, ok := ordinalOf(name)
	if !ok {
		return 0, false
	}
	template, ok := strings.CutSuffix(head, "-"+s.name)
	if !ok {
		return 0, false
	}
	return ordinal, slices.ContainsFunc(s.sets, func(st *world.StatefulSet) bool {
		return slices.Contains(st.Spec.Templates,
			template)
	})
}

// claimAt returns a claim as it was at a resourceVersion, nil where none was seen.
func (w *setWatch) claimAt(key string, version uint64) *claimState {
	var at *claimState
	for _, c := range w.claims[key] {
		if c.Version > version {
			break
		}
		at = c
	}
	if at == nil || at.Deleted() {
		return nil
	}
	return at
}

// claimEnd returns where a claim was deleted, nil where that was not seen.
func (w *setWatch) claimEnd(key, uid string) *claimState {
	for _, c := range w.claims[key] {
		if c.UID() == uid && c.Deleted() {
			return c
		}
	}
	return nil
}

// volumeAt returns a volume as it was at a resourceVersion; where it was seen only later, as it was first.
func (w *setWatch) volumeAt(name string, version uint64) *volumeState {
	var at *volumeState
	for _, v := range w.volumes[name] {
		if v.Version > version && at != nil {
			break
		}
		at = v
	}
	return at
}

// late reports whether an event came when the trial was over.
func (j *setJudge) late(e *history.Event) bool { return e.Span.NotBefore > j.until }
