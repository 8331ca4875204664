package check_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

func updateTales() []tale {
	const name = "set-update"
	budget := func(most any) spec { return spec{MaxUnavailable: most} }
	rolled := three(spec{}, func(w *web) { w.Change(image("v2")).Replace(2, 1, 0) })
	recreate := spec{Recreate: true}
	return []tale{
		{"from the highest down", name, rolled, check.Pass, ""},
		{"from the lowest up", name, three(spec{}, func(w *web) { w.Change(image("v2")).Replace(0) }), check.Fail,
			"Pod web-0 was ended by the rolling update to web-v2 at +25.000 s although web-2 was still at revision " +
				"web-v1"},
		{"one is left out", name, three(spec{}, func(w *web) { w.Change(image("v2")).Replace(2, 0) }), check.Fail,
			"although web-1 was still at revision web-v1"},
		{"before the last is Ready", name, three(spec{}, func(w *web) {
			w.Change(image("v2")).Away(2).Make(2).End(1)
		}), check.Fail, "although web-2 was not Running, and maxUnavailable is 1"},
		{"before the last is there", name, three(spec{}, func(w *web) { w.Change(image("v2")).Away(2).End(1) }),
			check.Fail, "although web-2 was not there"},
		{"before the last has ended", name, three(spec{}, func(w *web) { w.Change(image("v2")).End(2).End(1) }),
			check.Fail, "although web-2 was terminating"},
		{"before the last is available", name, three(spec{}, func(w *web) {
			w.Change(func(s *spec) { s.MinReady, s.Image = 30, "v2" }).Wait(40).Replace(2).End(1)
		}), check.Fail, "although web-2 was Ready for less than the 30 s of minReadySeconds"},
		{"when the last is available", name, three(spec{}, func(w *web) {
			w.Change(func(s *spec) { s.MinReady, s.Image = 30, "v2" }).Wait(40).Replace(2).Wait(30).Replace(1).Wait(30).
				Replace(0).Wait(40)
		}), check.Pass, ""},
		{"the last is Ready, of a revision that never is", name, but(rolled, broken), check.Fail,
			"Pod web-1 was ended by the rolling update to web-v2 at +37.000 s although web-2 was at a revision that " +
				"is never Ready, and maxUnavailable is 1"},
		{"all at once", name, three(recreate, func(w *web) {
			w.Change(image("v2")).End(0).End(1).End(2).Gone(2).Gone(0).Gone(1).Up(0, 1, 2)
		}), check.Pass, ""},
		{"made before the last of the old is gone", name, three(recreate, func(w *web) {
			w.Change(image("v2")).End(0).End(1).End(2).Gone(0).Up(0).Gone(1).Gone(2).Up(1, 2)
		}), check.Fail, "Pod web-0 was made at revision web-v2 at +37.000 s while pod web-1, at revision web-v1, was " +
			"not gone, and the update strategy is Recreate"},
		{"updated again while a pod is new", name, three(recreate, func(w *web) {
			w.Change(image("v2")).End(0).End(1).End(2).Gone(2).Gone(0).Gone(1)
			w.Pause = 0.5
			w.Make(0).Change(image("v3")).Make(1)
		}), check.Pass, ""},
		{"one of the old is left alone", name, three(recreate, func(w *web) {
			w.Change(image("v2")).End(1).End(2).Gone(1).Gone(2).Up(1, 2)
		}), check.Fail, "while pod web-0, at revision web-v1, was not gone"},
		{"a pod of the new revision is ended too", name, three(recreate, func(w *web) {
			w.Change(image("v2")).End(0).End(1).End(2).Gone(2).Gone(0).Gone(1).Up(0, 1, 2).End(2).Gone(2).Up(2)
		}), check.Fail, "although it was at the update revision web-v2 and had not failed"},
		{"two at a time", name, three(budget(2), func(w *web) {
			w.Change(image("v2"))
			w.Pause = 0.1
			w.End(2).End(1)
			w.Pause = 3
			w.Gone(2).Gone(1).Up(1, 2).Replace(0)
		}), check.Pass, ""},
		{"three at a time where two are allowed", name, three(budget(2), func(w *web) {
			w.Change(image("v2")).End(2).End(1).End(0)
		}), check.Fail, "although web-2 was terminating, web-1 was terminating, and maxUnavailable is 2"},
		{"half of three is one", name, three(budget("50%"), func(w *web) { w.Change(image("v2")).End(2).End(1) }),
			check.Fail, "maxUnavailable is 1"},
		{"all of three", name, three(budget("100%"), func(w *web) { w.Change(image("v2")).End(2).End(1).End(0) }),
			check.Pass, ""},
		{"a moment after the last lost its readiness", name, three(spec{}, func(w *web) {
			w.Change(image("v2")).Replace(2)
			w.Pause = 1
			w.Unready(2).End(1)
		}), check.Pass, ""},
		{"Parallel, what is broken first", name, three(spec{Parallel: true, MaxUnavailable: 1}, func(w *web) {
			w.Change(image("v2")).Unready(0).Replace(0, 2, 1)
		}), check.Pass, ""},
		{"Parallel, one too many", name, three(spec{Parallel: true, MaxUnavailable: 1}, func(w *web) {
			w.Change(image("v2")).End(2).End(1)
		}), check.Fail, "web-2 was terminating, and maxUnavailable is 1"},
	}
}

// strayTales have pods that something other than the update ends, or that were not seen.
func strayTales() []tale {
	const name = "set-update"
	rolled := three(spec{}, func(w *web) { w.Change(image("v2")).Replace(2, 1, 0) })
	return []tale{
		{"a pod that is up to date", name, three(spec{}, func(w *web) {
			w.Keep(made, "v1", 1).Keep(made, "v2", 2).Change(image("v2")).Replace(2, 1, 0).End(2)
		}), check.Fail, "Pod web-2 was ended by its StatefulSet at +"},
		{"somebody else's deletion out of turn", name, three(spec{}, func(w *web) {
			w.Change(image("v2")).Replace(2).Ask(0).Gone(0).Up(0).Replace(1)
		}), check.Unknown, "pod web-0 was ended at +37.000 s although web-1 was still at revision web-v1, and " +
			"who ended it is not known"},
		{"an eviction out of turn", name, three(spec{}, func(w *web) {
			w.Change(image("v2")).Replace(2)
			w.Pod(0).Disrupted = true
			w.Ask(0).Gone(0).Up(0).Replace(1)
		}), check.Pass, ""},
		{"a failed pod out of turn", name, three(spec{}, func(w *web) {
			w.Change(image("v2")).Replace(2)
			w.Pod(0).Phase, w.Pod(0).Ready = "Failed", false
			w.Say(changed, 0).Away(0).Up(0).Replace(1)
		}), check.Pass, ""},
		{"a blind watch", name, but(rolled, gap("api/pods", 25, 26)), check.Unknown, "api/pods was blind"},
		{"events not watched", name, but(rolled, drop(observer("api/events", "", history.ObserverOn))), check.Unknown,
			"api/events was never on"},
		{"nothing was updated", name, three(spec{}, nil), check.Unknown, "nothing to judge"},
	}
}

func partitionTales() []tale {
	const name = "set-partition"
	half := spec{Partition: 2}
	return []tale{
		{"a canary, phased to zero", name, three(half, func(w *web) {
			w.Change(image("v2")).Replace(2).Change(partition(1)).Replace(1).Change(partition(0)).Replace(0)
		}), check.Pass, ""},
		{"rolled back", name, three(half, func(w *web) {
			w.Change(image("v2")).Replace(2).Change(image("v1")).Replace(2)
		}), check.Pass, ""},
		{"above the replicas", name, three(spec{Partition: 9}, func(w *web) { w.Change(image("v2")).Wait(30) }),
			check.Pass, ""},
		{"deleted below it, it comes back on the current one", name, three(half, func(w *web) {
			w.Change(image("v2")).Replace(2).Ask(0).Gone(0).Up(0)
		}), check.Pass, ""},
		{"it comes back on the update", name, three(half, func(w *web) {
			w.Change(image("v2")).Replace(2).Ask(0).Gone(0).MakeAt(0, "web-v2").Ready(0)
		}), check.Fail, "Pod web-0, below the partition of 2, was made at +43.000 s at revision \"web-v2\", not " +
			"web-v1"},
		{"above it, it comes back on the current one", name, three(half, func(w *web) {
			w.Change(image("v2")).Away(2).MakeAt(2, "web-v1").Ready(2)
		}), check.Fail, "Pod web-2, from the partition on of 2, was made"},
		{"the update goes on below it", name, three(half, func(w *web) { w.Change(image("v2")).Replace(2).End(1) }),
			check.Fail, "Pod web-1, below the partition of 2, was ended by its StatefulSet at +37.000 s"},
		{"patched to the update", name, three(half, func(w *web) {
			w.Change(image("v2")).Replace(2)
			w.Pod(0).Revision = "web-v2"
			w.Say(changed, 0)
		}), check.Fail, "Pod web-0 was made at revision \"web-v1\" and was at \"web-v2\" at +37.000 s: it is below " +
			"the partition of 2"},
		{"patched to the images of the update", name, three(half, func(w *web) {
			w.Keep(made, "v1", 1).Change(image("v2")).Keep(made, "v2", 2).Replace(2)
			w.Pod(0).Image = "web-v2"
			w.Say(changed, 0)
		}), check.Fail, "Pod web-0, below the partition and made at revision \"web-v1\", ran the images of the update"},
		{"just lowered, made by one who did not know", name, three(half, func(w *web) {
			w.Change(image("v2")).Replace(2).Ask(0)
			w.Pause = 0.5
			w.Gone(0).Change(partition(0)).MakeAt(0, "web-v1")
		}), check.Pass, ""},
		{"deleted by somebody, and at once by the update", name, three(half, func(w *web) {
			w.Change(image("v2")).Replace(2).Change(partition(1)).Replace(1)
			w.Pause = 0.5
			w.Ask(0).Gone(0).Up(0).Change(partition(0)).Replace(0)
		}), check.Pass, ""},
		{"a status that names no revision", name, but(three(spec{}, nil), editAll(func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Resource == "statefulsets"
		}, func(e *history.Event) {
			o := *e.Object
			o.Raw = []byte(strings.NewReplacer(`"updateRevision"`, `"u"`, `"currentRevision"`, `"c"`).
				Replace(string(o.Raw)))
			e.Object = &o
		})), check.Unknown, "the status names none"},
		{"a blind watch", name, but(three(half, nil), gap("api/statefulsets", 5, 6)), check.Unknown, "was blind"},
	}
}

// broken has the plan update to a revision v2 whose pods never start up.
func broken(events []history.Event) []history.Event {
	v2 := plan.Step{N: 2, Do: plan.ActionUpdate, Wait: plan.WaitObserved, Bound: plan.Duration(time.Minute),
		Update: &plan.Update{Revision: "v2", Broken: plan.BrokenStartup}}
	back := plan.Step{N: 3, Do: plan.ActionRollback, Revision: plan.RevisionFirst, Bound: plan.Duration(time.Minute)}
	for i := range events {
		e := &events[i]
		switch {
		case e.Kind == history.KindPlan:
			p := historytest.SetPlan(3)
			p.Steps = append(p.Steps, v2, back)
			e.Plan, _ = json.Marshal(p)
		case e.Kind == history.KindObject && e.Object.Resource == "pods" &&
			strings.Contains(string(e.Object.Raw), `"controller-revision-hash":"web-v2"`):
			rewrite(`"metadata":{`, `"metadata":{"annotations":{"`+plan.RevisionAnnotation+`":"v2"},`)(e)
		}
	}
	return events
}

func onDeleteTales() []tale {
	const name = "set-on-delete"
	s := spec{OnDelete: true}
	evicted := func(w *web, k int) {
		w.Pod(k).Disrupted = true
		w.Ask(k).Gone(k).Up(k)
	}
	return []tale{
		{"deleted, it comes back on the update", name, three(s, func(w *web) {
			w.Change(image("v2"))
			evicted(w, 0)
			evicted(w, 2)
		}), check.Pass, ""},
		{"replaced by itself", name, three(s, func(w *web) { w.Change(image("v2")).Replace(2) }), check.Fail,
			"Pod web-2, at revision \"web-v1\", was ended by its StatefulSet at +25.000 s although its update " +
				"strategy is OnDelete"},
		{"it comes back on the old one", name, three(s, func(w *web) {
			w.Change(image("v2"))
			w.Pod(1).Disrupted = true
			w.Ask(1).Gone(1).MakeAt(1, "web-v1")
		}), check.Fail, "Pod web-1 came back at +31.000 s at revision \"web-v1\", not at the update revision web-v2"},
		{"ended by nobody knows who", name, three(s, func(w *web) { w.Change(image("v2")).Ask(1).Gone(1).Up(1) }),
			check.Unknown, "who ended it is not known"},
		{"scaled down", name, three(s, func(w *web) {
			w.Change(image("v2")).Change(replicas(2)).Away(2)
		}), check.Pass, ""},
	}
}

func identityTales() []tale {
	const name = "set-identity"
	plain := three(spec{}, func(w *web) { w.Ask(1).Gone(1).Up(1) })
	first := func(f func(*history.Event)) func([]history.Event) []history.Event {
		return edit(object("pods", "web-1", 1), f)
	}
	return []tale{
		{"made again", name, plain, check.Pass, ""},
		{"another host name", name, but(plain, first(rewrite(`"hostname":"web-1"`, `"hostname":"web-0"`))),
			check.Fail, "Pod web-1 was made at +10.000 s with the host name \"web-0\""},
		{"another service", name, but(plain, first(rewrite(`"subdomain":"web"`, `"subdomain":"db"`))), check.Fail,
			"with the subdomain \"db\"; its StatefulSet's service is \"web\""},
		{"another label", name, but(plain, first(rewrite(`/pod-name":"web-1"`, `/pod-name":"web-2"`))), check.Fail,
			"with the label statefulset.kubernetes.io/pod-name \"web-2\""},
		{"another index", name, but(plain, first(rewrite(`/pod-index":"1"`, `/pod-index":"2"`))), check.Fail,
			"pod-index \"2\""},
		{"another's claim", name, but(plain, first(rewrite(`"claimName":"data-web-1"`, `"claimName":"data-web-0"`))),
			check.Fail, "its volume data is not the claim data-web-1"},
		{"a claim that changes its volume", name, but(plain, func(events []history.Event) []history.Event {
			var e history.Event
			for i := range events {
				if o := events[i].Object; o != nil && o.Name == "data-web-1" && o.Verb == changed {
					e = events[i]
				}
			}
			rewrite(`"pv-web-1"`, `"pv-web-9"`)(&e)
			e.Object.ResourceVersion, e.Span = "99999", history.At(historytest.At(20))
			return append(events, e)
		}), check.Fail, "Claim data-web-1 was bound to volume pv-web-1 and at +20.000 s to \"pv-web-9\""},
		{"two claims, one volume", name, but(plain, edit(object("persistentvolumeclaims", "data-web-1", 2),
			rewrite(`"volumeName":"pv-web-1"`, `"volumeName":"pv-web-0"`))), check.Fail,
			"Volume pv-web-0 was bound to claim data-web-0 and, at +10.030 s, to claim data-web-1 too"},
		{"on a node that its volume is not on", name, but(plain, edit(object("pods", "web-1", 2),
			rewrite(`"nodeName":"worker2"`, `"nodeName":"worker"`))), check.Fail,
			"Pod web-1 was put on node worker at +13.000 s, which its volume pv-web-1 (claim data-web-1) does not " +
				"allow"},
		{"on two nodes", name, three(spec{}, func(w *web) {
			w.Pod(1).Node = "worker"
			w.Say(changed, 1)
		}), check.Fail, "was on node worker2 and at +22.000 s on \"worker\": no pod moves"},
		{"its end was not seen", name, but(plain, drop(pod(gone, "web-1", 1))), check.Unknown, "its end was missed"},
		{"its creation was not seen", name, but(plain, drop(object("pods", "web-1", 1))), check.Unknown,
			"its creation was missed"},
		{"seen twice", name, but(plain, func(events []history.Event) []history.Event {
			i := slices.IndexFunc(events, func(e history.Event) bool { return pod(changed, "web-1", 1)(&e) })
			return slices.Insert(events, i, events[i])
		}), check.Unknown, "came twice"},
		{"nodes not watched", name, but(plain, drop(observer("api/nodes", "", history.ObserverOn))), check.Unknown,
			"api/nodes was never on"},
	}
}

// managerStopped is a tale in which a fault stops the controller manager at 20 s, until a time.
func managerStopped(until float64, tell func(more func(*web)) func() history.History) func() history.History {
	told := tell(func(w *web) {
		w.Fault(2, "manager-stop", "control-plane", "web-0", historytest.FaultTimes{Intent: 20, Injected: 20,
			InjectedEnd: 20.2, Confirmed: 21, Healed: until - 1, HealedEnd: until - 0.5, Over: until})
	})
	return but(told, func(events []history.Event) []history.Event {
		i := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.KindPlan })
		p, err := plan.Decode(events[i].Plan)
		if err != nil {
			panic(err)
		}
		p.Steps = append(p.Steps, plan.Step{N: 2, Do: plan.ActionFault, Bound: plan.Duration(time.Minute),
			Fault: &plan.Fault{Name: "manager-stop", Hold: plan.Duration(time.Second)}})
		if events[i].Plan, err = json.Marshal(p); err != nil {
			panic(err)
		}
		return events
	})
}

func claimTales() []tale {
	const name = "set-claims"
	goes := spec{WhenScaled: "Delete", WhenDeleted: "Delete"}
	podUID := func(w *web, k int) string { return w.Pod(k).UID }
	scaled := func(s spec, more func(w *web, uid string)) func() history.History {
		return three(s, func(w *web) {
			uid := podUID(w, 2)
			w.Change(replicas(2)).Away(2)
			more(w, uid)
		})
	}
	hurt := func(fault func(*web)) func() history.History {
		return scaled(goes, func(w *web, _ string) {
			fault(w)
			w.Wait(30)
		})
	}
	return []tale{
		{"kept when scaled " +
			"down", name, scaled(spec{}, func(w *web, _ string) { w.Change(replicas(3)).Up(2) }), check.Pass, ""},
		{"deleted when scaled down, as said", name, scaled(goes, func(w *web, uid string) {
			w.ClaimEnds(changed, 2, uid).ClaimEnds(gone, 2, uid)
		}), check.Pass, ""},
		{"deleted when scaled down, to be retained", name, scaled(spec{WhenScaled: "Retain"}, func(w *web, _ string) {
			w.ClaimEnds(changed, 2, "")
		}), check.Fail, "Claim data-web-2 was deleted at +31.000 s although whenScaled is Retain"},
		{"deleted while wanted", name, three(goes, func(w *web) { w.ClaimEnds(changed, 1, "") }), check.Fail,
			"Claim data-web-1 was deleted at +22.000 s although its pod's ordinal is wanted (3 replicas from 0 on)"},
		{"gone under its pod", name, scaled(goes, func(w *web, _ string) {
			w.Change(replicas(1)).ClaimEnds(changed, 1, "").ClaimEnds(gone, 1, "")
		}), check.Fail, "Claim data-web-1 was gone at +37.000 s although pod web-1"},
		{"left over when scaled down", name, scaled(goes, func(w *web, _ string) { w.Wait(30) }), check.Fail,
			"Claim data-web-2 was still there at +62.500 s, 34.5s after its ordinal was unwanted and its pod gone"},
		{"left over after the control plane was hurt", name, managerStopped(30, hurt), check.Fail,
			"Claim data-web-2 was still there at +62.500 s"},
		{"left over while the control plane was hurt", name, managerStopped(58, hurt), check.Pass, ""},
		{"still within the bound", name, scaled(goes, func(w *web, _ string) { w.Wait(3) }), check.Pass, ""},
		{"kept when the StatefulSet is deleted and made again", name, three(spec{}, func(w *web) {
			w.Drop().Away(2, 1, 0).Wait(30).Again().Up(0, 1, 2)
		}), check.Pass, ""},
		{"left over when the StatefulSet is deleted, and made again later", name, three(goes, func(w *web) {
			w.Drop().Away(2, 1, 0).Wait(30).Again().Up(0, 1, 2)
		}), check.Fail, "Claim data-web-1 was still there at"},
		{"made again within the bound", name, three(goes, func(w *web) {
			w.Drop().Away(2, 1, 0).Wait(3).Again().Up(0, 1, 2)
		}), check.Pass, ""},
		{"deleted with the StatefulSet, to be retained", name, three(spec{WhenScaled: "Delete"}, func(w *web) {
			w.Drop().Away(2, 1, 0).ClaimEnds(changed, 0, "")
		}), check.Fail, "although whenDeleted is Retain"},
		{"deleted late by the garbage collector", name, scaled(goes, func(w *web, uid string) {
			w.Change(replicas(3)).ClaimEnds(changed, 2, uid).ClaimEnds(gone, 2, uid).Up(2)
		}), check.Pass, ""},
		{"deleted with its pod, which is wanted", name, three(goes, func(w *web) {
			uid := podUID(w, 1)
			w.Ask(1).Gone(1).ClaimEnds(changed, 1, uid).ClaimEnds(gone, 1, uid)
		}), check.Fail, "although its pod's ordinal is wanted (3 replicas from 0 on)"},
		{"a claim nobody saw", name, but(three(spec{}, nil), drop(func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Name == "data-web-1"
		})), check.Unknown, "claim data-web-1 of pod web-1 was never seen"},
		{"a claim whose creation nobody saw", name, but(three(spec{}, nil),
			drop(object("persistentvolumeclaims", "data-web-1", 1))), check.Unknown, "its creation was missed"},
		{"claims not watched", name, but(three(spec{}, nil),
			drop(observer("api/persistentvolumeclaims", "", history.ObserverOn))), check.Unknown, "was never on"},
	}
}

func bindingTales() []tale {
	const name = "set-binding"
	plain := three(spec{}, nil)
	listed := func(resource, name, raw string) history.Event {
		return history.Event{Kind: history.KindObject, Source: "api", Span: history.At(historytest.At(0.5)),
			Object: &history.Object{Verb: history.VerbListed, Resource: resource, Name: name, UID: name,
				ResourceVersion: "0", Raw: []byte(raw)}}
	}
	immediate := func(tell func() history.History) func() history.History {
		return but(tell, func(events []history.Event) []history.Event {
			return slices.Insert(events, 5, listed("storageclasses", "made-up", `{"volumeBindingMode":"Immediate"}`))
		})
	}
	small := func(phase, pv string) func() history.History {
		return but(plain, func(events []history.Event) []history.Event {
			raw := `{"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"512Mi"},` +
				`"storageClassName":"made-up","nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[` +
				`{"key":"kubernetes.io/hostname","operator":"In","values":["worker2"]}]}]}}},` +
				`"status":{"phase":"` + phase + `"}}`
			for i := range events {
				if o := events[i].Object; o != nil && o.Resource == "persistentvolumes" && o.Name == pv {
					rewrite(`"512Mi"`, `"1Gi"`)(&events[i])
				}
			}
			return slices.Insert(events, 5, listed("persistentvolumes", "pv-small", raw))
		})
	}
	return []tale{
		{"bound when wanted", name, plain, check.Pass, ""},
		{"no pod wanted it", name, but(plain, drop(func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Resource == "pods" && e.Object.Name == "web-1"
		})), check.Fail, "Claim data-web-1 was bound to volume pv-web-1 at +10.030 s although no pod wanted it"},
		{"bound at once", name, immediate(plain), check.Pass, ""},
		{"the smallest is on another node", name, small("Available", "pv-web-2"), check.Pass, ""},
		{"the smallest is on another node, at once", name, immediate(small("Available", "pv-web-2")), check.Fail,
			"to volume pv-web-2 with 1073741824, although pv-small with 536870912 was free."},
		{"a node before the claim is bound", name, but(plain, drop(object("persistentvolumeclaims", "data-web-1", 2))),
			check.Fail, "Pod web-1 was given node worker2 at +"},
		{"claims not watched", name, but(plain,
			drop(observer("api/persistentvolumeclaims", "", history.ObserverOn))), check.Unknown, "was never on"},
		{"not the smallest", name, small("Available", "pv-web-1"), check.Fail,
			"was bound at +10.030 s to volume pv-web-1 with 1073741824, although pv-small with 536870912 was free " +
				"on node worker2"},
		{"the smallest that was free", name, small("Released", "pv-web-1"), check.Pass, ""},
		{"too small", name, but(plain, editAll(func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Name == "pv-web-2"
		}, rewrite(`"512Mi"`, `"12Mi"`))), check.Fail, "which wants 536870912 bytes, was bound"},
	}
}

func policyTales() []tale {
	const name = "set-policy"
	burst := spec{Parallel: true, Replicas: 3}
	return []tale{
		{"Parallel", name, func() history.History {
			w := historytest.Web(burst)
			w.Pause = 0.2
			w.Make(0).Make(1).Make(2).Wait(5).Ready(2).Ready(0).Ready(1).Wait(20)
			w.Change(replicas(1)).End(2).End(1).Gone(1).Gone(2).Wait(20)
			return w.Told(1)
		}, check.Pass, ""},
		{"Parallel that waits", name, func() history.History {
			w := historytest.Web(burst)
			w.Make(0).Wait(12).Ready(0).Up(1, 2).Wait(20)
			return w.Told(1)
		}, check.Fail, "Pod web-1, wanted since +1.000 s, was not made within 10s although the policy is Parallel"},
		{"Parallel, scaled down, stuck", name, func() history.History {
			w := historytest.Web(burst)
			w.Pause = 0.2
			w.Make(0).Make(1).Make(2).Wait(5).Ready(2).Ready(0).Ready(1)
			w.Change(replicas(2)).Wait(30)
			return w.Told(1)
		}, check.Fail, "Pod web-2, which is not wanted since"},
		{"an ordinal nobody wants", name, three(spec{}, func(w *web) { w.Up(3) }), check.Fail,
			"Pod web-3 was made at +22.000 s although its StatefulSet wants 3 pods from ordinal 0 on"},
		{"below the first ordinal", name, three(spec{Start: 4}, func(w *web) { w.Up(3) }), check.Fail, "from " +
			"ordinal 4 on"},
		{"too many revisions", name, three(spec{HistoryLimit: 1}, func(w *web) {
			for n, name := range []string{"v1", "v0", "v00", "v000"} {
				w.Keep(made, name, n)
			}
			w.Wait(30)
		}), check.Fail, "StatefulSet web keeps 3 old revisions, and revisionHistoryLimit is 1"},
		{"as many revisions as allowed", name, three(spec{HistoryLimit: 1}, func(w *web) {
			w.Keep(made, "v0", 1).Keep(made, "v1", 2).Wait(30)
		}), check.Pass, ""},
		{"a revision that a pod is at", name, three(spec{}, func(w *web) {
			w.Keep(made, "v1", 2).Keep(gone, "v1", 2)
		}), check.Fail, "Revision web-v1 was deleted at +25.000 s although pod web-0 was at it"},
	}
}

func statusTales() []tale {
	const name = "set-status"
	plain := three(spec{}, func(w *web) {
		w.Change(image("v2")).Replace(2, 1, 0).Unready(1).Ready(1).Change(replicas(1)).Away(2, 1).Wait(40)
	})
	last := func(e *history.Event) bool {
		return e.Kind == history.KindObject && e.Object.Resource == "statefulsets" &&
			e.Span.NotAfter > historytest.At(78) && e.Span.NotAfter < historytest.At(78.1)
	}
	status := func(says string) match {
		return func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Resource == "statefulsets" &&
				strings.Contains(string(e.Object.Raw), says)
		}
	}
	slow := func(promote bool) func() history.History {
		return three(spec{MinReady: 20}, func(w *web) {
			w.Wait(40).Change(image("v2")).Replace(2).Wait(30).Replace(1).Wait(30).Replace(0)
			if promote {
				w.Unready(2) // This writes a status for the test to corrupt.
			}
			w.Wait(40)
		})
	}
	// From the sixth version on, the StatefulSet is another, and its generation is not; the API server tells versions.
	upgraded := func(from, to string, versions ...string) func() history.History {
		return func() history.History {
			h := three(spec{}, func(w *web) { w.Unready(1).Ready(1).Wait(5) })()
			n := 0
			for i := range h.Events {
				if e := &h.Events[i]; e.Object != nil && e.Object.Resource == "statefulsets" {
					if n++; n > 5 {
						rewrite(from, to)(e)
					}
				}
			}
			for _, v := range versions {
				h.Events = append(h.Events, history.Event{
					Kind: history.KindVersion, Span: history.At(historytest.At(20)),
					Version: &history.Version{Component: history.ComponentAPIServer, Version: v},
				})
			}
			return h
		}
	}
	byHand := three(spec{OnDelete: true}, func(w *web) {
		w.Change(image("v2"))
		for k := range 3 {
			w.Ask(k).Gone(k).Up(k)
		}
		w.Wait(60)
	})
	const rolling = `"rollingUpdate":{`
	demands := "demands at +13.002 s what it did not before, and its generation is the same"
	return []tale{
		{"defaulted by an upgrade", name, upgraded(rolling, rolling+`"maxUnavailable":1,`, "v1.36.3", "v1.37.0"),
			check.Pass, ""},
		{"defaulted without an upgrade", name, upgraded(rolling, rolling+`"maxUnavailable":1,`, "v1.37.0", "v1.37.0"),
			check.Unknown, demands},
		{"defaulted, and no version was told", name, upgraded(rolling, rolling+`"maxUnavailable":1,`), check.Unknown,
			demands},
		{"another maxUnavailable", name, upgraded(rolling, rolling+`"maxUnavailable":2,`, "v1.36.3", "v1.37.0"),
			check.Unknown, demands},
		{"a maxUnavailable that comes to 1", name, upgraded(rolling, rolling+`"maxUnavailable":"40%",`, "v1.36.3",
			"v1.37.0"), check.Unknown, demands},
		{"another partition beside it", name, upgraded(`"rollingUpdate":{"partition":0`,
			rolling+`"maxUnavailable":1,"partition":1`, "v1.36.3", "v1.37.0"), check.Unknown, demands},
		{"another retention beside an upgrade", name, upgraded(`"revisionHistoryLimit":10`, `"revisionHistoryLimit":9`,
			"v1.36.3", "v1.37.0"), check.Unknown, demands},
		{"as it was", name, plain, check.Pass, ""},
		{"one Ready too many", name, but(plain, edit(status(`"readyReplicas":2`), rewrite(`"readyReplicas":2`,
			`"readyReplicas":3`))), check.Fail, "readyReplicas is 3, and 1 to 2 were Ready"},
		{"one too many at the current revision", name, but(plain, edit(status(`"currentReplicas":2`),
			rewrite(`"currentReplicas":2`, `"currentReplicas":3`))), check.Fail,
			"currentReplicas is 3, and at most 2 were at web-v1"},
		{"none at the current revision, for long", name, but(three(spec{}, func(w *web) { w.Unready(1).Wait(60) }),
			editAll(status(`"currentReplicas":3`), rewrite(`"currentReplicas":3`, `"currentReplicas":0`))), check.Fail,
			"to +86.500 s: currentReplicas is 0, and 3 are at web-v1"},
		{"one too few", name, but(plain, edit(status(`"replicas":3,"updateRevision`),
			rewrite(`"replicas":3,"updateRevision`,
				`"replicas":1,"updateRevision`))), check.Fail, "replicas is 1, and there were 2 to 3"},
		{"a status never written", name, but(plain, drop(last)), check.Pass, ""},
		{"the last status never written", name, but(three(spec{}, func(w *web) { w.Unready(1).Wait(60) }),
			func(events []history.Event) []history.Event {
				for i, e := range slices.Backward(events) {
					if e.Object != nil && e.Object.Resource == "statefulsets" {
						return slices.Delete(events, i, i+1)
					}
				}
				return events
			}), check.Fail, "The status of StatefulSet web was wrong from +22.000 s to +86.500 s: readyReplicas is " +
			"3, and 2"},
		{"a generation was missed", name, but(plain, drop(status(`"generation":2`))), check.Unknown, "a change was " +
			"missed"},
		{"available before its time", name, but(slow(false), editAll(status(`"availableReplicas":0,`),
			rewrite(`"availableReplicas":0,`, `"availableReplicas":1,`))), check.Fail, "availableReplicas is 1, and"},
		{"available in time", name, slow(false), check.Pass, ""},
		{"never counted as available", name, but(three(spec{MinReady: 20}, func(w *web) { w.Wait(90) }),
			editAll(status(`"availableReplicas":3`), rewrite(`"availableReplicas":3`, `"availableReplicas":2`))),
			check.Fail, "availableReplicas is 2, and 3 have been Ready for more than minReadySeconds"},
		{"available, and never the current revision", name, but(three(spec{MinReady: 20}, func(w *web) {
			w.Wait(40).Change(image("v2")).Replace(2).Wait(30).Replace(1).Wait(30).Replace(0).Wait(65)
		}), editAll(status(`"currentRevision":"web-v2"`), rewrite(`"currentRevision":"web-v2"`,
			`"currentRevision":"web-v1"`))), check.Fail, "currentRevision is web-v1, and all 3 pods are Ready at"},
		{"replaced by hand before it was watched", name, but(three(spec{OnDelete: true}, func(w *web) { w.Wait(60) }),
			editAll(status(`"currentRevision":"web-v1"`), func(e *history.Event) {
				rewrite(`"currentRevision":"web-v1"`, `"currentRevision":"web-v0"`)(e)
				e.Object.Raw = regexp.MustCompile(`"currentReplicas":\d`).ReplaceAll(e.Object.Raw,
					[]byte(`"currentReplicas":0`))
			})), check.Pass, ""},
		{"replaced by hand", name, byHand, check.Pass, ""},
		{"replaced by hand, and never the current revision", name, but(byHand,
			editAll(status(`"currentRevision":"web-v2"`), rewrite(`"currentRevision":"web-v2"`,
				`"currentRevision":"web-v1"`))), check.Fail, "currentRevision is web-v1, and all 3 pods are Ready at"},
		{"the StatefulSet's creation was " +
			"missed", name, but(plain, drop(object("statefulsets", "web", 1))), check.Unknown,
			"its creation was missed"},
		{"promoted before it was available", "set-promotion", promotedEarly, check.Fail, "was called complete at"},
		{"promoted in time", "set-promotion", slow(false), check.Pass, ""},
	}
}

// promotedEarly is an update that is called complete when the last pod is Ready (kubernetes/kubernetes issue 136831).
func promotedEarly() history.History {
	w := historytest.Web(spec{Replicas: 1, MinReady: 20})
	w.Up(0).Wait(30).Change(image("v2")).Replace(0).Wait(60)
	h := w.Told(1)
	early := false
	for i := range h.Events {
		o := h.Events[i].Object
		if o == nil || o.Resource != "statefulsets" || !strings.Contains(string(o.Raw), `"updateRevision":"web-v2"`) {
			continue
		}
		early = early || strings.Contains(string(o.Raw), `"readyReplicas":1`) &&
			strings.Contains(string(o.Raw), `"updatedReplicas":1`)
		if early && strings.Contains(string(o.Raw), `"currentRevision":"web-v1"`) {
			rewrite(`"currentRevision":"web-v1"`, `"currentRevision":"web-v2"`)(&h.Events[i])
		}
	}
	return h
}

// TestPendingAgain: a pod that was Running is Pending again only while its init containers run once more.
func TestPendingAgain(t *testing.T) {
	for more, want := range map[string]check.Verdict{
		"": check.Unknown, `,"initContainerStatuses":[{"name":"init"}]`: check.Pass,
	} {
		h := three(spec{}, func(*web) {})()
		h.Events = then(edit(object("pods", "web-1", 1), rewrite(`"phase":"Pending"`, `"phase":"Running"`)),
			edit(object("pods", "web-1", 2), func(e *history.Event) {
				rewrite(`"status":"True"`, `"status":"False"`)(e)
				rewrite(`09:00:13Z`, `09:00:00Z`)(e)
				rewrite(`"phase":"Running"`, `"phase":"Pending"`+more)(e)
			}))(h.Events)
		says := ""
		if want == check.Unknown {
			says = "it had been Running, and not yet"
		}
		expect(t, result(t, h, "set-identity"), want, says)
	}
}

// TestASecondPodOfOneIdentity makes a pod by hand beside those of a StatefulSet.
func TestASecondPodOfOneIdentity(t *testing.T) {
	for _, tc := range []struct {
		name                       string
		label, hostname, subdomain string
		verdict                    check.Verdict
	}{
		{"of another host name", "", "other", "web", check.Pass},
		{"of the host name, and no subdomain", "", "web-1", "", check.Pass},
		{"of an ordinal that is not there", "", "web-7", "web", check.Pass},
		{"of another StatefulSet", "", "api-1", "web", check.Pass},
		{"of the DNS name", "", "web-1", "web", check.Fail},
		{"of the label", "web-1", "", "", check.Fail},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := historytest.Web(historytest.SetSpec{Replicas: 3}).Up(0, 1, 2).
				ByHand("by-hand", tc.label, tc.hostname, tc.subdomain).Told(20)
			says := ""
			if tc.verdict == check.Fail {
				says = "had the identity of pod web-1"
			}
			expect(t, result(t, h, "set-identity"), tc.verdict, says)
		})
	}
}
