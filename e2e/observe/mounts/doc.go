// Package mounts brings the ledgers that the nodes keep into the history of a trial.
//
// Its promise is that of package tail, for the ledger of each node. It imports the port of clusters, the facts, the
// place of the ledger on a node, and tail.
package mounts
