// Package csicalls brings the calls of the CSI driver, as it writes them down on the nodes, into the history of a
// trial.
//
// Its promise is that of package tail, for the driver's node service on every node and its controller service on the
// control plane. It imports the port of clusters, the facts, and tail.
package csicalls
