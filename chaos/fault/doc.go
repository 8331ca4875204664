// Package fault declares what a fault is: something that goes wrong on purpose, that can show its effect and can be
// undone. The guard holds every fault to the order of its life; faulttest holds every fault to the port.
//
// Env is what faults share: it reads and awaits leases, nodes, units, processes, pods and volumes, and returns facts.
// It compares what one clock said with what the same clock said later, never the wall clock of a node with that of the
// harness. Concrete faults are in the folders below, one file each.
package fault
