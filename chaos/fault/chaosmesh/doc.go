// Package chaosmesh reads manifests of Chaos Mesh (chaos-mesh.org/v1alpha1), as users have them, and turns them into
// the steps of a plan that mean the same, or says which field cannot be carried out and what to write instead.
//
// A manifest is decoded strictly into the types of Chaos Mesh's API, given their defaults, and held against the rules
// of this package and then against their own (ValidateCreate, which needs no cluster). All of that is on paper. Each
// action that can be carried out is a row of one table, with the fields that it takes: any other field is refused by
// name. What is carried out by Seatrial's own faults is shown and healed as theirs, on any kind cluster, without Chaos
// Mesh:
//
//	PodChaos pod-kill                        pod-force-delete; with gracePeriod, pod-delete with that grace
//	PodChaos container-kill                  container-kill
//	NetworkChaos partition with a target     pod-partition, with direction and partitionBehavior
//	NetworkChaos loss without a target       packet-loss of the pod's node
//	PhysicalMachineChaos process             kubelet-kill, kubelet-freeze, kube-proxy-kill, runtime-kill, and kill and
//	                                         freeze of the components of the control plane (signals 9 and 19)
//	PhysicalMachineChaos network-partition   node-partition from control-plane, node-isolate from another machine
//	PhysicalMachineChaos network-loss        packet-loss
//	Workflow                                 its templates: Serial, Parallel, Suspend and experiments
//	Schedule                                 its experiment so many times, with a pause in between
//
// These are left to Chaos Mesh in the cluster, by the fault of this package; where there is none, they are refused
// before anything is touched: PodChaos pod-failure, IOChaos latency and fault, StressChaos.
//
// These are refused, since no probe of ours could show their effect, or since they are of something that a trial does
// not have: NetworkChaos delay, duplicate, corrupt, bandwidth and netem (they need netem in the nodes' kernel), and
// external targets; TimeChaos (it changes the clock that a running process reads, which no other process sees); IOChaos
// attrOverride and mistake, and IOChaos of methods without getattr and lookup, which alone leave a volume as it is;
// StressChaos with a command line of stress-ng; PhysicalMachineChaos of anything else (it needs chaosd on the machine)
// and of the clock (the nodes of a kind cluster share one); KernelChaos, BlockChaos, HTTPChaos, DNSChaos, JVMChaos and
// those of clouds; templates of type Task, StatusCheck and Schedule, Schedules that come less often than once an hour,
// and those whose experiments may overlap.
//
// What a manifest leaves open is settled on paper. Its namespace stands for the trial's own. A mode that draws (one,
// fixed, fixed-percent, random-max-percent) is drawn with the seed of the plan, and a note of the step says what was
// drawn: what Chaos Mesh would draw, nobody could draw again. Selectors see the labels that the workload's pods have,
// and those that the plan says the manifest knows them by. A physical machine is the node of the pod of its name, or of
// the pod that the plan says. Several victims are hurt at the same time. The manifests of one file are carried out one
// after the other.
//
// It imports the ports, the plan, client-go, and alone in the house the API of Chaos Mesh.
package chaosmesh
