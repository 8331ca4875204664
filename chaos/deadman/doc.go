// Package deadman arms the undo of a fault on the node itself, as a systemd timer: the fault ends on time although
// the harness was killed, the API server is gone, or both.
//
// It imports the standard library, chaos/mark and the cluster port.
package deadman
