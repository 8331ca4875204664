package main

import (
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

const (
	second = plan.Duration(time.Second)
	minute = plan.Duration(time.Minute)
	hour   = plan.Duration(time.Hour)
)

// legalPlans are legal with the faults and workloads that there are. Together they have every action, every await and
// most fields.
func legalPlans() []plan.Plan {
	plans := []plan.Plan{dataPlan(), diskPlan(), setPlan(), besidePlan()}
	for i := range plans {
		plan.Number(plans[i].Steps)
	}
	wait := plans[3].Steps[1].Branches // Their numbers are known by now.
	wait[1][0].Await.Step = wait[0][0].N
	return plans
}

func planWith(name string, w plan.Workload, steps ...plan.Step) plan.Plan {
	return plan.Plan{
		Schema: plan.SchemaVersion, Scenario: name, Seed: 7, Workers: 3, Workload: w,
		Bounds: plan.Bounds{Ready: minute, Settle: minute, BlindGap: second, MinOps: 1, MinAround: 1, MaxNodes: 2},
		Steps:  steps,
	}
}

func ledgerOf3() plan.Workload {
	return plan.Workload{
		Name: "ledger", StatefulSet: "mysql", Replicas: 3, FileSystem: "ext4", VolumeMiB: 256, Clients: 2,
		Interval: second, QuietRows: 10, PreStop: second,
	}
}

func faultOn(name string, ordinal int, during ...plan.Step) plan.Step {
	return plan.Step{Do: plan.ActionFault, Bound: hour, Fault: &plan.Fault{
		Name: name, Ordinal: ordinal, Hold: second, During: during}}
}

func awaitStep(a plan.Await) plan.Step {
	return plan.Step{Do: plan.ActionAwait, Await: &a, Bound: 2 * minute}
}

func loadStep() plan.Step { return plan.Step{Do: plan.ActionLoad, Commits: 5, Bound: minute} }

// dataPlan has the steps that concern the data of databases, and faults one after another.
func dataPlan() plan.Plan {
	cut := faultOn("node-partition", 2)
	cut.Fault.Params = plan.Params{"families": []string{"ipv4", "ipv6"}}
	w := ledgerOf3()
	w.Silent, w.Parallel = true, true
	return planWith("made-up-data", w,
		loadStep(),
		plan.Step{Do: plan.ActionChecksum, Label: "before", Bound: minute},
		cut, faultOn("kubelet-kill", 0), faultOn("node-reboot", 1),
		plan.Step{Do: plan.ActionPause, Lasting: second, Bound: minute, Note: "to take a breath"},
		plan.Step{Do: plan.ActionExec, Exec: &plan.Exec{Container: "mysql", Command: []string{"true"}}, Bound: minute},
		plan.Step{Do: plan.ActionTamper, Tamper: &plan.Tamper{Kind: "delete-row", Ordinal: 1}, Bound: minute},
	)
}

// diskPlan has faults of disks that can move, one within another, with what is awaited there.
func diskPlan() plan.Plan {
	w := ledgerOf3()
	w.Storage, w.Fencing, w.Packed = plan.StorageSharedDisk, "single", true
	point := faultOn("csi-point", 0, awaitStep(plan.Await{For: plan.AwaitCSIEnd, RPC: "NodeStageVolume", Count: 2}))
	point.Fault.Params = plan.Params{"csi": plan.Params{
		"rpc": "NodeStageVolume", "act": "fail", "code": "Internal", "times": 3,
	}}
	late := faultOn("csi-point", 1)
	late.Fault.Params = plan.Params{"csi": plan.Params{
		"rpc": "ControllerPublishVolume", "act": "delay", "delay": second,
	}}
	gone := faultOn("node-delete", 0)
	gone.Bound, gone.Fault.Outlast = 10*minute, true
	kill := faultOn("kubelet-kill", 0)
	kill.Fault.When = &plan.Await{For: plan.AwaitCSIBegin, RPC: "NodeUnpublishVolume"}
	kill.Fault.Provoke = []plan.Step{faultOn("pod-delete", 0)}
	kill.Fault.Provoke[0].Bound = minute
	return planWith("made-up-disk", w, point, late, kill,
		faultOn("node-partition", 0,
			awaitStep(plan.Await{For: plan.AwaitNotReady}), gone,
			awaitStep(plan.Await{For: plan.AwaitUnmount, Place: plan.PlaceGlobal, Since: plan.SinceStep,
				Delay: second}),
			awaitStep(plan.Await{For: plan.AwaitMoved})))
}

// setPlan has the changes of a StatefulSet, with moments of their own.
func setPlan() plan.Plan {
	w := ledgerOf3()
	w.UpdateStrategy, w.MaxUnavailable, w.MinReadySeconds = plan.StrategyRolling, 2, 2
	w.Start, w.WhenDeleted, w.WhenScaled = 4, plan.PolicyRetain, plan.PolicyDelete
	one, three, two, four := 1, 3, 2, 4
	change := func(do plan.Action, during ...plan.Step) plan.Step {
		return plan.Step{Do: do, Bound: hour, During: during}
	}
	down := change(plan.ActionScale, awaitStep(plan.Await{For: plan.AwaitTerminating, Ordinal: 6}))
	up := change(plan.ActionScale)
	down.Replicas, up.Replicas, up.Wait = &one, &three, plan.WaitObserved
	part, update := change(plan.ActionPartition), change(plan.ActionUpdate)
	part.Partition = &two
	update.Update, update.Wait = &plan.Update{Revision: "v2", Broken: plan.BrokenImage}, plan.WaitObserved
	back, del := change(plan.ActionRollback), change(plan.ActionDeleteSet)
	back.Revision, del.Cascade = plan.RevisionFirst, plan.CascadeOrphan
	claim, pod := change(plan.ActionDeleteClaim), change(plan.ActionDeletePod)
	claim.Ordinal, pod.Ordinal = &four, &four
	return planWith("made-up-set", w, down, up,
		awaitStep(plan.Await{For: plan.AwaitReady, Ordinal: 6, Count: 1}),
		awaitStep(plan.Await{For: plan.AwaitSettled}),
		part, update, awaitStep(plan.Await{For: plan.AwaitStill, Lasting: second}), back, claim, del,
		change(plan.ActionCreateSet), pod)
}

// besidePlan has faults beside each other, and the rest of what can be awaited.
func besidePlan() plan.Plan {
	match := func(op, path, value string) plan.Await {
		return plan.Await{For: plan.AwaitObject, Delay: second, Count: 2, Since: plan.SinceStep, Object: &plan.Match{
			Kind: "Pod", Name: "mysql-0", Path: path, Op: op, Value: value}}
	}
	return planWith("made-up-beside", ledgerOf3(),
		loadStep(),
		plan.Step{Do: plan.ActionTogether, Bound: 3 * hour, Branches: [][]plan.Step{
			{faultOn("node-partition", 0, awaitStep(match("=", `.status.conditions[?(@.type=="Ready")].status`,
				"False")))},
			{awaitStep(plan.Await{For: plan.AwaitFault, Step: 3, Stage: plan.StageConfirmed}), faultOn("kubelet-stop",
				1),
				faultOn("cordon", 1)},
			{awaitStep(plan.Await{For: plan.AwaitCommits, Commits: 3, Since: plan.SinceSteps}), loadStep(),
				awaitStep(plan.Await{For: plan.AwaitTime, After: second, Since: plan.SinceStep})},
		}},
		faultOn("runtime-kill", 2, awaitStep(plan.Await{For: plan.AwaitMount, Ordinal: 2, Place: plan.PlacePod}),
			awaitStep(match("<", ".metadata.generation", "7"))),
	)
}
