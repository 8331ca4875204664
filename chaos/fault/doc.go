// Package fault defines the port of faults: a deliberate failure that shows its effect and can be undone. Guard runs
// every fault through the stages of its life; faulttest checks every fault against the port.
//
// Env holds what faults share: it reads and awaits leases, nodes, units, processes, pods and volumes, and returns
// facts. It compares readings of the same clock only, never a node's wall clock with the harness's. The folders below
// hold the faults, one file each.
package fault
