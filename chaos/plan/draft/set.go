package draft

import (
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// Light is a StatefulSet of containers that do nothing, on volumes of 16 MiB.
func Light(replicas int) plan.Workload {
	return plan.Workload{
		Name: plan.LightName, StatefulSet: plan.LightName, Light: true, Replicas: replicas, FileSystem: "ext4",
		VolumeMiB: 16,
	}
}

// LightBounds are Bounds without what is held against clients.
func LightBounds() plan.Bounds {
	b := Bounds()
	b.MinOps, b.MinAround = 0, 0
	return b
}

// changeBound is what a change of a StatefulSet of three databases keeps, with a fault in it, on a bad day.
const changeBound = 5 * time.Minute

func change(do plan.Action, during []plan.Step) plan.Step {
	return plan.Step{Do: do, During: during, Bound: plan.Duration(changeBound)}
}

// ScaleTo sets the replicas of the StatefulSet; during are carried out while it is under way.
func ScaleTo(replicas int, during ...plan.Step) plan.Step {
	s := change(plan.ActionScale, during)
	s.Replicas = &replicas
	return s
}

// Update gives the pod template a revision.
func Update(revision string, during ...plan.Step) plan.Step {
	s := change(plan.ActionUpdate, during)
	s.Update = &plan.Update{Revision: revision}
	return s
}

// Broken gives the pod template a revision whose pods are never Ready, see plan.Brokens, and does not wait for them.
func Broken(revision, how string, during ...plan.Step) plan.Step {
	s := Update(revision, during...)
	s.Update.Broken = how
	return Observed(s)
}

// Partition sets the partition of the rolling update.
func Partition(partition int, during ...plan.Step) plan.Step {
	s := change(plan.ActionPartition, during)
	s.Partition = &partition
	return s
}

// Rollback gives the pod template back as a revision had it.
func Rollback(revision string, during ...plan.Step) plan.Step {
	s := change(plan.ActionRollback, during)
	s.Revision = revision
	return s
}

// DeleteSet deletes the StatefulSet, see plan.Cascades.
func DeleteSet(cascade string, during ...plan.Step) plan.Step {
	s := change(plan.ActionDeleteSet, during)
	s.Cascade = cascade
	return s
}

// CreateSet makes the StatefulSet again.
func CreateSet(during ...plan.Step) plan.Step { return change(plan.ActionCreateSet, during) }

// DeletePod deletes a pod, whether or not another can come.
func DeletePod(ordinal int) plan.Step {
	return plan.Step{Do: plan.ActionDeletePod, Ordinal: &ordinal, Bound: plan.Duration(time.Minute)}
}

// DeleteClaim deletes the claim of an ordinal.
func DeleteClaim(ordinal int) plan.Step {
	return plan.Step{Do: plan.ActionDeleteClaim, Ordinal: &ordinal, Bound: plan.Duration(time.Minute)}
}

// Recover gives a database that has lost its volume the data of the first one.
func Recover(ordinal int, bound time.Duration) plan.Step {
	return plan.Step{Do: plan.ActionRecover, Ordinal: &ordinal, Bound: plan.Duration(bound)}
}

// Observed makes a change not wait for what comes of it.
func Observed(s plan.Step) plan.Step {
	s.Wait = plan.WaitObserved
	return s
}

// Settled waits until the StatefulSet has come to what was last asked of it.
func Settled() plan.Step { return Await(plan.AwaitSettled, 0, changeBound) }

// Still waits until no pod has stirred for so long.
func Still(lasting time.Duration) plan.Step {
	s := Await(plan.AwaitStill, 0, lasting+time.Minute)
	s.Await.Lasting = plan.Duration(lasting)
	return s
}
