// Package deadman arms the undo of a fault where it does not need the harness: on the node itself, as a systemd timer,
// or beside the cluster, for a fault that takes the whole node away. The fault ends on time although the harness was
// killed, the API server is gone, or both.
//
// It imports the standard library, chaos/mark and the cluster port. The process beside the cluster is in outside, which
// alone starts a program on this machine.
package deadman
