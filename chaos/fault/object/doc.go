// Package object holds the faults of API objects, one file each: a pod or a Node is deleted, tainted or cordoned, as a
// person or a controller would do it.
//
// It imports the ports below chaos and clusters, and client-go.
package object
