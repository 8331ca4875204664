// Package storage holds the faults of volumes and of the code that attaches and mounts them, one file each.
//
// It imports the ports below chaos, clusters, and client-go. It uses the shared disk's driver only through the command
// line of its program on the nodes.
package storage
