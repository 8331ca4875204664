// Package objects lists what the API has of the things that a fault can leave behind, as its parent does for a node.
//
// The rule: of every node of the cluster, whether its Node is registered and Ready; its taints, its labels, and whether
// it is cordoned; annotations of ours. Finalizers that are not Kubernetes' own. ResourceQuotas by a name of ours,
// and experiments of Chaos Mesh by a label of ours. VolumeAttachments that no pod on their node needs, or whose node is
// no more. PersistentVolumes that have failed, or that should be deleted and are not.
//
// It imports the Kubernetes client, and is therefore not part of the agent.
package objects
