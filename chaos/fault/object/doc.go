// Package object holds the faults of API objects, one file each: a pod, claim or Node is deleted, tainted or cordoned,
// as a person or a controller does it.
//
// It imports the ports below chaos, clusters, and client-go.
package object
