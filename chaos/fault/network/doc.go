// Package network holds the faults of the network between nodes, one file each.
//
// It imports the ports below chaos and clusters. What is cut is decided by pure functions; nodes are touched through
// clusters.Node alone.
package network
