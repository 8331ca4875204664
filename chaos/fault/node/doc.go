// Package node holds the faults of one node, its kubelet and its power, one file each.
//
// It imports the ports below chaos and clusters.
package node
