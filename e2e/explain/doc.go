// Package explain says of one StatefulSet at one moment what its controller wants to do, which pod is in its way, since
// when and why, and whether that looks as if it would pass.
//
// It is pure and reads a world alone: that of a saved run at a moment, or one of the objects of a cluster as it is now.
// The order in which a controller acts is that of k8s.io/kubernetes pkg/controller/statefulset.
package explain
