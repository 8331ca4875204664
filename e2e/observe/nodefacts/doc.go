// Package nodefacts installs the agent on nodes, which records mounts, processes and held volumes there, and reads the
// files of the agent and the CSI driver on each node into the history of a trial.
//
// Its promise: every line of a node's file becomes one fact, once and in its order, on the harness's clock, whatever
// happens to the node meanwhile; a time for which that is not certain is recorded as a gap.
package nodefacts
