// Package node holds the faults of a node: its kubelet, container runtime, containers, clock and power, one file each.
//
// It imports the ports below chaos, and clusters.
package node
