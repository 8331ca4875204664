// Package chaosmesh reads manifests of Chaos Mesh (chaos-mesh.org/v1alpha1), as users have them, and turns them into
// the steps of a plan that mean the same, or says which field cannot be carried out and what to write instead.
//
// A manifest is decoded strictly into the types of Chaos Mesh's API. Each action is a row of one table, which names the
// fault that it becomes, the fields that are honoured (any other is refused by name) and why it is refused, if it is.
// What is legal by the table is held against the rules of Chaos Mesh's own webhooks, which need no cluster. All of that
// is on paper.
//
// Most actions become Seatrial's own faults: they are shown and healed as those, without Chaos Mesh. Others are left to
// Chaos Mesh in the cluster, by the fault of this package; where there is none, they are refused before anything is
// touched. Refused is what no probe of ours could show, and what concerns something that a trial does not have. A
// Workflow becomes the steps of its templates: Serial, Parallel, Suspend and experiments. A Schedule becomes its
// experiment so many times, with a pause in between.
//
// What a manifest leaves open is settled on paper. Its namespace stands for the trial's own. A mode that draws (one,
// fixed, fixed-percent, random-max-percent) is drawn with the seed of the plan, and a note of the step says what was
// drawn. Selectors see the labels that the workload's pods have, and those that the plan says the manifest knows them
// by. A physical machine is the node of the pod of its name, or of the pod that the plan says. Several victims are hurt
// at the same time. The manifests of one file are carried out one after the other.
//
// It imports the ports, the plan, client-go, and alone in the house the API of Chaos Mesh.
package chaosmesh
