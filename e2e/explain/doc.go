// Package explain says of one StatefulSet at one moment what its controller wants to do, which pod is in its way, since
// when and why, and whether that looks as if it would pass.
//
// It is pure: it imports the standard library, the facts (chaos/history) and nothing that asks a cluster. What it takes
// are facts about API objects, one after the other, from a saved run or from a cluster that somebody else asked. The
// order in which a controller acts is that of k8s.io/kubernetes pkg/controller/statefulset.
package explain
