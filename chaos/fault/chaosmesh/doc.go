// Package chaosmesh imports Chaos Mesh manifests (chaos-mesh.org/v1alpha1). It turns them into equivalent steps of a
// plan, or names the field that it cannot carry out and what to write instead.
//
// It decodes a manifest strictly into Chaos Mesh's API types. Each action is a row of one table: the fault that it
// becomes, the supported fields (others are refused by name), and the reason if it is refused. The result must also
// pass Chaos Mesh's own webhook validation. None of this needs a cluster.
//
// Most actions become Seatrial's own faults, which work without Chaos Mesh. The fault of this package leaves the others
// to the Chaos Mesh in the cluster; without one, the trial is refused before anything is touched. Refused are actions
// that no probe of ours could show, and those on things that a trial does not have. A Workflow becomes the steps of its
// templates: Serial, Parallel, Suspend and experiments. A Schedule becomes its experiment a fixed number of times, with
// pauses in between.
//
// Open choices are settled at import. A manifest's namespace becomes the trial's. A random mode (one, fixed,
// fixed-percent, random-max-percent) is drawn with the plan's seed, and a note of the step names the draw. Selectors
// see the labels of the workload's pods and those that the plan adds for manifests. A physical machine is the node of
// the pod of the same name, or of the pod that the plan names. Several victims are hit at the same time. The manifests
// of a file run one after the other.
//
// It imports the ports, the plan and client-go. No other package imports Chaos Mesh's API.
package chaosmesh
