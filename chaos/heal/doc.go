// Package heal finds what faults have left on a node, by owner marks alone, and undoes it; no journal is needed, and
// nothing of anybody else is touched. The same code runs on the node (agent heal) and from the harness (seatrial heal).
//
// It imports the standard library, chaos/await, chaos/mark and the cluster port, so that the agent stays small.
package heal
