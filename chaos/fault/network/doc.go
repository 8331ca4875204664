// Package network holds the faults of the network between nodes, one file each.
//
// Pure functions decide what to cut; clusters.Node carries it out. The package imports the ports below chaos, and
// clusters.
package network
