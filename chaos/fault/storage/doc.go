// Package storage holds the faults of volumes and of what attaches and mounts them, one file each.
//
// It imports the ports below chaos and clusters, and client-go. What it knows of the shared disk's driver is the
// command line of its program on the nodes.
package storage
