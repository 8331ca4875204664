package check_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// planned gives a history another plan.
func planned(w *web, after float64, change func(*plan.Plan)) history.History {
	p := historytest.SetPlan(w.Spec.Replicas)
	change(&p)
	for i := range p.Steps {
		p.Steps[i].N, p.Steps[i].Bound = i+1, plan.Duration(10*time.Minute)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err) // A plan is plain data.
	}
	h := w.Told(after)
	edit(kind(history.KindPlan), func(e *history.Event) { e.Plan = raw })(h.Events)
	return h
}

// While web-2 is scaled away, a step of the plan deletes web-1, which is to go as well.
func TestDeletedByThePlanWhileScaledDown(t *testing.T) {
	for name, end := range map[string]func(*web, int) *web{
		"by the plan": (*web).Ask, "by its StatefulSet": (*web).End,
	} {
		t.Run(name, func(t *testing.T) {
			w := historytest.Web(spec{Replicas: 3})
			one, ordinal := 1, 1
			w.Up(0, 1, 2).Change(replicas(1)).End(2)
			from := w.Now
			end(w, 1)
			w.Phase(history.PhaseStep, 3, from-0.1, from+0.1)
			w.Gone(2).Gone(1)
			w.Spec.Replicas = 3
			want, says := check.Pass, ""
			if name != "by the plan" {
				want, says = check.Fail, "although web-2 was still terminating"
			}
			expect(t, result(t, planned(w, 5, func(p *plan.Plan) {
				p.Steps = append(p.Steps, plan.Step{Do: plan.ActionScale, Replicas: &one,
					During: []plan.Step{{N: 3, Do: plan.ActionDeletePod, Ordinal: &ordinal,
						Bound: plan.Duration(time.Minute)}}})
			}), "order"), want, says)
		})
	}
}

// managerGone stops the controller manager from one time to another, in step 2 of the plan.
func managerGone(w *web, from, to float64) {
	w.Fault(2, "manager-stop", "control-plane", "web-0", historytest.FaultTimes{Intent: from, Injected: from,
		InjectedEnd: from + 0.2, Confirmed: from + 1, Healed: to - 1, HealedEnd: to - 0.5, Over: to})
}

func stopsManager(p *plan.Plan) {
	p.Steps = append(p.Steps, plan.Step{Do: plan.ActionFault,
		Fault: &plan.Fault{Name: "manager-stop", Hold: plan.Duration(time.Second)}})
}

// The controller manager is stopped for 10 s; it is back, and writes no status any more for the rest of the trial.
func TestStatusWrongForGoodAfterAFault(t *testing.T) {
	w := historytest.Web(spec{Replicas: 3})
	w.Up(0, 1, 2)
	from := w.Now
	managerGone(w, from, from+10)
	w.Wait(1).Unready(1).Wait(200)
	h := planned(w, 5, stopsManager)
	h.Events = drop(after(of("statefulsets"), from))(h.Events)
	expect(t, result(t, h, "set-status"), check.Fail, "readyReplicas is 3, and 2 are Ready")
}

// A pod of a Parallel StatefulSet is never made; minutes later the controller manager is stopped.
func TestNeverMadeLongBeforeAFault(t *testing.T) {
	w := historytest.Web(spec{Replicas: 3, Parallel: true})
	w.Up(0, 1).Wait(100)
	managerGone(w, w.Now, w.Now+10)
	w.Wait(100)
	expect(t, result(t, planned(w, 5, stopsManager), "set-policy"), check.Fail, "Pod web-2, wanted since")
}

// A Parallel StatefulSet is scaled up while the controller manager is stopped, and gets no pod after that either.
func TestNeverMadeAfterAFault(t *testing.T) {
	w := historytest.Web(spec{Replicas: 2, Parallel: true})
	w.Up(0, 1)
	managerGone(w, w.Now, w.Now+10)
	w.Wait(2).Change(replicas(3)).Wait(100)
	w.Spec.Replicas = 3
	expect(t, result(t, planned(w, 5, stopsManager), "set-policy"), check.Fail, "Pod web-2, wanted since")
}

// evictable is a StatefulSet of three pods whose budget wants two available.
func evictable() *web { w := historytest.Web(spec{Replicas: 3}); return w.Up(0, 1, 2) }

func evict(w *web, ordinal int) {
	w.Pod(ordinal).Evicted = true
	w.Ask(ordinal)
}

func budget(p *plan.Plan) { p.Workload.MinAvailable = 2 }

// Two drains evict two of three pods within half a second.
func TestEvictedAtOnce(t *testing.T) {
	w := evictable()
	w.Pause = 0.5
	evict(w, 0)
	evict(w, 1)
	expect(t, result(t, planned(w, 5, budget), "pdb-honoured"), check.Fail, "web-1 was evicted at")
}

// While the controller manager, and with it the disruption controller, is stopped, nobody tells the API server that a
// pod has lost its readiness.
func TestEvictedWhileNobodyCounts(t *testing.T) {
	w := evictable()
	managerGone(w, w.Now, w.Now+30)
	w.Wait(2).Unready(0).Wait(10)
	evict(w, 1)
	w.Wait(30)
	h := planned(w, 5, func(p *plan.Plan) {
		budget(p)
		stopsManager(p)
	})
	expect(t, result(t, h, "pdb-honoured"), check.Pass, "")
}

// early rewrites the current revision to web-v2 in the versions of the StatefulSet after a time.
func early(seconds float64) func([]history.Event) []history.Event {
	return editAll(after(func(e *history.Event) bool {
		return of("statefulsets")(e) && strings.Contains(string(e.Object.Raw), `"currentRevision":"web-v1"`)
	}, seconds), rewrite(`"currentRevision":"web-v1"`, `"currentRevision":"web-v2"`))
}

// The last pod of an update is refused, as by a quota: the status counts the others, and all of them are updated.
func TestPromotedWithoutTheLast(t *testing.T) {
	for name, tc := range map[string]struct {
		tell func(*web) *web
		says string
	}{
		"not there": {func(w *web) *web { return w.Away(0) }, "pod web-0 was not there"},
		"not Ready": {func(w *web) *web { return w.Away(0).Make(0) }, "pod web-0 was not Running"},
		"old":       {func(w *web) *web { return w }, "pod web-0 was at revision web-v1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := three(spec{MinReady: 5}, func(w *web) {
				w.Wait(20).Change(image("v2")).Replace(2, 1).Wait(20)
				tc.tell(w).Wait(20).Change(func(s *spec) { s.HistoryLimit = 5 }).Wait(10)
			})()
			last := h.Events[len(h.Events)-1].Span.NotAfter.Sub(historytest.Start).Seconds()
			h.Events = early(last - 18)(h.Events)
			expect(t, judgeOne(t, h, "set-promotion"), check.Fail, tc.says)
		})
	}
}

// Pods of the StatefulSet that was deleted still end while another of its name is there, which does not count them.
func TestPodsOfThePredecessor(t *testing.T) {
	w := historytest.Web(spec{Replicas: 2})
	w.Up(0, 1)
	w.Pause = 0.5
	w.Drop().Ask(1).Ask(0).Again()
	w.Pause = 3
	w.Wait(20).Gone(1).Gone(0).Up(0, 1)
	h := w.Told(5)
	for i := range h.Events {
		e := &h.Events[i]
		if o := e.Object; o != nil && o.Resource == "pods" && len(o.Raw) > 0 {
			uid := "web-uid-1"
			if e.Span.NotAfter > historytest.At(39) {
				uid = "web-uid-2"
			}
			rewrite(`"kind":"StatefulSet"`, `"kind":"StatefulSet","uid":"`+uid+`"`)(e)
		}
	}
	expect(t, result(t, h, "set-status"), check.Pass, "")
}

// Two claims have one volume; the first of them changes once more, long after.
func TestTwoClaimsOfOneVolume(t *testing.T) {
	h := but(three(spec{WhenScaled: "Delete"}, func(w *web) {
		uid := w.Pod(0).UID
		w.Wait(10).ClaimEnds(changed, 0, uid)
	}), edit(object("persistentvolumeclaims", "data-web-2", 2), rewrite(`"volumeName":"pv-web-2"`,
		`"volumeName":"pv-web-0"`)))()
	expect(t, result(t, h, "set-identity"), check.Fail, "Volume pv-web-0 was bound to claim data-web-0")
}

// TestSecondPodElsewhere makes a pod by hand that has the host name of another in another domain, and one whose own
// name looks like that of a StatefulSet's pod.
func TestSecondPodElsewhere(t *testing.T) {
	made := func(name, label, subdomain string) check.Result {
		return result(t, historytest.Web(spec{Replicas: 3}).Up(0, 1, 2).ByHand(name, label, "web-1", subdomain).
			Told(20), "set-identity")
	}
	expect(t, made("by-hand", "", "db"), check.Pass, "")
	expect(t, made("copy-1", "", "web"), check.Fail, "had the identity of pod web-1")
	expect(t, made("copy-1", "web-1", ""), check.Fail, "had the identity of pod web-1")
}

// The watch of Events breaks; the list after it shows again that an update ended web-2 a minute before. At that time
// somebody deletes the pod.
func TestOldEventListedAgain(t *testing.T) {
	w := historytest.Web(spec{Replicas: 3})
	w.Up(0, 1, 2).Change(image("v2")).Replace(2, 1, 0).Change(func(s *spec) { s.OnDelete = true }).Wait(30)
	asked := w.Now
	w.Ask(2).Gone(2).Up(2)
	w.Observer("api/events", "", "", history.ObserverGap, "expired", asked-1, asked+1)
	h := w.Told(5)
	for _, e := range h.Events {
		if of("events")(&e) && strings.Contains(string(e.Object.Raw), "delete Pod web-2 ") {
			o := *e.Object
			o.Verb = history.VerbListed
			e.Object, e.Span = &o, history.Between(historytest.At(asked+0.9), historytest.At(asked+1))
			h.Events = append(h.Events, e)
			break
		}
	}
	expect(t, judgeOne(t, h, "set-on-delete"), check.Unknown, "who ended it is not known")
}

// The controller manager is stopped after the scheduler has chosen a volume for the claim, and before it is bound. The
// pod, which is Pending, is deleted meanwhile.
func TestBoundAfterItsPodWasDeleted(t *testing.T) {
	w := historytest.Web(spec{Replicas: 2})
	w.Up(0)
	managerGone(w, w.Now, w.Now+20)
	w.Make(1)
	w.Pod(1).Node = ""
	w.Gone(1)
	over := w.Now + 20
	w.Wait(30).Up(1)
	h := planned(w, 5, stopsManager)
	edit(object("persistentvolumeclaims", "data-web-1", 2), func(e *history.Event) {
		e.Span = history.Between(historytest.At(over), historytest.At(over+0.001))
	})(h.Events)
	h.Events = renumbered(h.Events)
	expect(t, result(t, h, "set-binding"), check.Pass, "")
}

// renumbered sorts events by time, with resourceVersions in that order.
func renumbered(events []history.Event) []history.Event {
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.Span.NotAfter, b.Span.NotAfter) })
	for i := range events {
		if o := events[i].Object; o != nil {
			fresh := *o
			fresh.ResourceVersion = strconv.Itoa(i + 1)
			events[i].Object = &fresh
		}
		events[i].ID = int64(i + 1)
	}
	return events
}

// A pod of a Parallel StatefulSet is deleted, and is not made again for minutes.
func TestNeverMadeAgain(t *testing.T) {
	tell := three(spec{Parallel: true}, func(w *web) { w.Ask(1).Gone(1).Wait(100).Up(1) })
	expect(t, result(t, tell(), "set-policy"), check.Fail, "Pod web-1, gone since")
}

// A fault lets the namespace have no more pods, before a pod is wanted or long after.
func TestNotMadeForAQuota(t *testing.T) {
	limited := func(tell func(w *web, limit func())) check.Result {
		w := historytest.Web(spec{Replicas: 3, Parallel: true})
		w.Pause = 1
		tell(w.Up(0, 1, 2), func() {
			w.Fault(2, "pod-quota", "", "", historytest.FaultTimes{Intent: w.Now, Injected: w.Now, InjectedEnd: w.Now,
				Confirmed: w.Now, Healed: w.Now + 60, HealedEnd: w.Now + 60, Over: w.Now + 60})
		})
		h := planned(w, 5, func(p *plan.Plan) {
			stopsManager(p)
			p.Steps[1].Fault.Name = "pod-quota"
		})
		editAll(kind(history.KindFault), func(e *history.Event) { e.Fault.Takes = []string{"quota"} })(h.Events)
		return result(t, h, "set-policy")
	}
	expect(t, limited(func(w *web, limit func()) {
		limit()
		w.Ask(1).Gone(1).Wait(100).Up(1)
	}), check.Pass, "")
	expect(t, limited(func(w *web, limit func()) {
		limit()
		w.Change(replicas(4)).Wait(100).Up(3)
	}), check.Pass, "")
	expect(t, limited(func(w *web, limit func()) {
		w.Ask(1).Gone(1).Wait(100)
		limit()
		w.Wait(100).Up(1)
	}), check.Fail, "Pod web-1, gone since")
}

// A step of the plan deletes one claim; another is deleted then too, though its ordinal is wanted.
func TestAnotherClaimIsDeletedWithThePlans(t *testing.T) {
	deleted := func(own int) check.Result {
		w := historytest.Web(spec{Replicas: 2})
		w.Up(0, 1)
		from := w.Now
		w.ClaimEnds(changed, 1, "").Wait(10)
		w.Phase(history.PhaseStep, 2, from-1, w.Now)
		return result(t, planned(w, 5, func(p *plan.Plan) {
			p.Steps = append(p.Steps, plan.Step{N: 2, Do: plan.ActionDeleteClaim, Ordinal: &own,
				Bound: plan.Duration(time.Minute)})
		}), "set-claims")
	}
	expect(t, deleted(1), check.Pass, "")
	expect(t, deleted(0), check.Fail, "Claim data-web-1 was deleted at")
}

// The record lacks the volume that a claim is bound to.
func TestClaimOfAVolumeNeverSeen(t *testing.T) {
	h := three(spec{}, func(*web) {})()
	h.Events = drop(func(e *history.Event) bool {
		return of("persistentvolumes")(e) && e.Object.Name == "pv-web-1"
	})(h.Events)
	expect(t, result(t, h, "set-identity"), check.Unknown,
		"claim data-web-1 is bound to volume pv-web-1, which was never seen")
}

// A volume is recycled after its claim was deleted, and nobody claims it any more.
func TestRecycledAndFree(t *testing.T) {
	w := historytest.Web(spec{Replicas: 2, WhenScaled: "Delete"})
	w.Up(0, 1)
	uid := w.Pod(1).UID
	w.Change(replicas(1)).Away(1).ClaimEnds(changed, 1, uid).ClaimEnds(gone, 1, uid).Wait(10)
	h := w.Told(5)
	var bound history.Event
	edit(object("persistentvolumes", "pv-web-1", 2), func(e *history.Event) { bound = *e })(h.Events)
	rewrite(`"phase":"Bound"`, `"phase":"Released"`)(&bound)
	bound.Span, bound.Object.ResourceVersion = history.At(historytest.At(w.Now-8)), "99990"
	free := bound
	rewrite(`"claimRef":`, `"formerly":`)(&free)
	rewrite(`"phase":"Released"`, `"phase":"Available"`)(&free)
	free.Span, free.Object.ResourceVersion = history.At(historytest.At(w.Now-6)), "99991"
	h.Events = append(h.Events, bound, free)
	expect(t, result(t, h, "set-identity"), check.Pass, "")
}

// A StatefulSet is deleted without its pods, one of which is then deleted by itself: its claim is nobody's.
func TestClaimsOfAnOrphan(t *testing.T) {
	w := historytest.Web(spec{Replicas: 2, WhenDeleted: "Delete"})
	w.Up(0, 1).Change(func(s *spec) { s.HistoryLimit = 9 })
	asked := w.Now - 3
	w.Drop().Ask(1).Gone(1).Wait(30).Again().Up(1)
	h := w.Told(5)
	edit(after(of("statefulsets"), asked-0.1), func(e *history.Event) {
		rewrite(`"metadata":{`, `"metadata":{"deletionTimestamp":"2026-11-21T09:00:20Z","finalizers":["orphan"],`)(e)
	})(h.Events)
	expect(t, result(t, h, "set-claims"), check.Pass, "")
}

// The volume of a claim that is deleted is to be deleted too. A fault is active for a while after that.
func TestReclaimedAroundAFault(t *testing.T) {
	reclaimed := func(fault string, after, lasting float64) check.Result {
		w := historytest.Web(spec{Replicas: 2, WhenScaled: "Delete"})
		w.Up(0, 1)
		uid := w.Pod(1).UID
		w.Change(replicas(1)).Away(1).ClaimEnds(changed, 1, uid).ClaimEnds(gone, 1, uid)
		from := w.Now
		w.Fault(2, fault, map[bool]string{true: "control-plane", false: "worker2"}[fault == "manager-stop"], "",
			historytest.FaultTimes{Intent: from, Injected: from, InjectedEnd: from, Confirmed: from, Healed: from + 40,
				HealedEnd: from + 40, Over: from + 40})
		w.Wait(lasting)
		h := planned(w, 5, func(p *plan.Plan) {
			stopsManager(p)
			p.Steps[1].Fault.Name = fault
		})
		editAll(of("persistentvolumes"), rewrite(`"Retain"`, `"Delete"`))(h.Events)
		if after > 0 {
			var end history.Event
			edit(object("persistentvolumes", "pv-web-1", 2), func(e *history.Event) { end = *e })(h.Events)
			o := *end.Object
			o.Verb, o.ResourceVersion = gone, "99990"
			end.Object, end.Span = &o, history.At(historytest.At(from+after))
			h.Events = append(h.Events, end)
		}
		return result(t, h, "set-claims")
	}
	expect(t, reclaimed("manager-stop", 0, 200), check.Fail, "Volume pv-web-1 was still there")
	expect(t, reclaimed("manager-stop", 150, 200), check.Fail, "Volume pv-web-1 was still there")
	expect(t, reclaimed("manager-stop", 50, 200), check.Pass, "")
	expect(t, reclaimed("node-crash", 50, 200), check.Pass, "")
	expect(t, reclaimed("node-crash", 90, 200), check.Pass, "") // The provisioner retries late.
	expect(t, reclaimed("node-crash", 0, 50), check.Pass, "")   // It is still attached to the node that was down.
	expect(t, reclaimed("node-crash", 0, 200), check.Fail, "Volume pv-web-1 was still there")
}

// A volume that is to be retained is deleted after its claim was, while a fault fills the file system of another.
func TestRetainedVolumeDeletedDuringAFault(t *testing.T) {
	w := historytest.Web(spec{Replicas: 2, WhenScaled: "Delete"})
	w.Up(0, 1)
	uid := w.Pod(1).UID
	w.Change(replicas(1)).Away(1).ClaimEnds(changed, 1, uid).ClaimEnds(gone, 1, uid)
	w.Fault(2, "volume-full", "worker1", "web-0", historytest.FaultTimes{Intent: w.Now, Injected: w.Now,
		InjectedEnd: w.Now, Confirmed: w.Now, Healed: w.Now + 40, HealedEnd: w.Now + 40, Over: w.Now + 40})
	w.Phase(history.PhaseStep, 2, w.Now, w.Now+40)
	w.Wait(10)
	h := planned(w, 5, func(p *plan.Plan) {
		stopsManager(p)
		p.Steps[1].Fault.Name = "volume-full"
	})
	var end history.Event
	edit(object("persistentvolumes", "pv-web-1", 2), func(e *history.Event) { end = *e })(h.Events)
	o := *end.Object
	o.Verb, o.ResourceVersion = gone, "99990"
	end.Object, end.Span = &o, history.At(historytest.At(w.Now-5))
	h.Events = append(h.Events, end)
	expect(t, result(t, h, "set-claims"), check.Unknown, "volume pv-web-1, to be retained, was deleted at")
}

// A StatefulSet is scaled up in the last step, and its last pod is never made.
func TestNeverMadeInTheEnd(t *testing.T) {
	drops := drop(func(e *history.Event) bool {
		return e.Kind == history.KindObject && e.Object.Resource == "pods" && e.Object.Name == "mysql-2"
	})
	late := then(edit(phase(history.PhaseSettle, 0, true), func(e *history.Event) {
		e.Span, e.Phase.Error = history.At(historytest.At(97.5)), "await 3 Ready pods: timed out"
	}), func(events []history.Event) []history.Event {
		more := historytest.New(historytest.SmokePlan())
		more.Beats("api/pods", "", "", 80, 99)
		return append(events, more.History().Events[1:]...)
	})
	verdict(t, then(drops, late)(add()(nil)), "settle", check.Fail)
	verdict(t, then(drops, late, gap("api/pods", 30, 31))(add()(nil)), "settle", check.Unknown)
}

// Two pods of a Parallel StatefulSet are scheduled at once. The scheduler takes the small volume for web-0, and its
// update of that volume reaches the API server a moment after the claim of web-1 is bound.
func TestSmallestIsTakenAMomentLater(t *testing.T) {
	judged := func(taken float64) check.Result {
		w := historytest.Web(spec{Replicas: 3, Parallel: true})
		w.Up(0, 1, 2)
		w.LocalPV("pv-small", "worker2", "data-other-0", 0.95, 10+taken)
		h := w.Told(5)
		editAll(func(e *history.Event) bool { return of("persistentvolumes")(e) && e.Object.Name == "pv-web-1" },
			rewrite(`"512Mi"`, `"1Gi"`))(h.Events)
		return result(t, h, "set-binding")
	}
	expect(t, judged(0.1), check.Pass, "")
	expect(t, judged(20), check.Fail, "although pv-small with 536870912 was free")
}

// Old revisions are kept for minutes; then, as at the end of every trial, the StatefulSet is scaled away.
func TestTooManyRevisionsBeforeTheEnd(t *testing.T) {
	kept := func(lasting float64, blind bool) check.Result {
		h := three(spec{HistoryLimit: 1}, func(w *web) {
			for n, name := range []string{"v1", "v0", "v00", "v000"} {
				w.Keep(made, name, n)
			}
			if blind {
				w.Observer("api/controllerrevisions", "", "", history.ObserverGap, "", w.Now+5, w.Now+6)
			}
			w.Wait(lasting).Keep(gone, "v00", 2).Keep(gone, "v000", 3).Change(replicas(0)).Away(2, 1, 0)
		})()
		return result(t, h, "set-policy")
	}
	expect(t, kept(100, false), check.Fail, "keeps 3 old revisions, and revisionHistoryLimit is 1")
	expect(t, kept(100, true), check.Fail, "keeps 3 old revisions, and revisionHistoryLimit is 1")
	expect(t, kept(2, false), check.Pass, "")
}

// Somebody ends a pod while a step of the plan deletes the one of an ordinal.
func TestEndedWhileThePlanDeletes(t *testing.T) {
	for ordinal, want := range map[int]check.Verdict{1: check.Pass, 2: check.Unknown} {
		w := historytest.Web(spec{Replicas: 3, OnDelete: true})
		w.Up(0, 1, 2).Change(image("v2"))
		from := w.Now
		w.Ask(1).Gone(1).Up(1).Phase(history.PhaseStep, 3, from-0.1, from+5)
		h := planned(w, 5, func(p *plan.Plan) {
			p.Workload.UpdateStrategy = plan.StrategyOnDelete
			p.Steps = append(p.Steps, plan.Step{Do: plan.ActionUpdate, Update: &plan.Update{Revision: "v2"}},
				plan.Step{Do: plan.ActionDeletePod, Ordinal: &ordinal})
		})
		says := ""
		if want == check.Unknown {
			says = "pod web-1 was ended at"
		}
		expect(t, result(t, h, "set-on-delete"), want, says)
	}
}

// Somebody changes the labels of a pod, so that its StatefulSet releases it, and scales the pod below it away.
func TestReleased(t *testing.T) {
	for _, released := range []bool{false, true} {
		w := historytest.Web(spec{Replicas: 3})
		w.Up(0, 1, 2)
		from := w.Now - 0.1
		w.Ready(2).Change(func(s *spec) { s.Replicas = 1 }).End(1).Gone(1)
		h := w.Told(5)
		editAll(of("pods"), rewrite(`"kind":"StatefulSet"`, `"kind":"StatefulSet","uid":"web-uid-1"`))(h.Events)
		if released {
			editAll(after(func(e *history.Event) bool { return of("pods")(e) && e.Object.Name == "web-2" }, from),
				rewrite(`"controller":true`, `"controller":false`))(h.Events)
		}
		for _, name := range []string{"order", "set-status"} {
			if got := result(t, h, name); released {
				expect(t, got, check.Unknown, "somebody took web-2 out of StatefulSet web")
			} else if name == "order" {
				expect(t, got, check.Fail, "Pod web-1 was ended by scaling down")
			}
		}
	}
}
