// Package evidence waits for what shows that a node or a pod is hurt, or well again: leases, conditions, containers,
// the kubelet. Each wait returns facts, or an error that says what was seen last.
//
// It imports the ports, the facts, and client-go. It compares what one clock said with what the same clock said later,
// never the wall clock of a node with that of the harness.
package evidence
