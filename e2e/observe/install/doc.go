// Package install puts the agent on a node and has it keep the ledger, from now on and from early in every later boot.
//
// Its promise: when it returns, what runs on the node is the very binary that was given, and a new ledger has begun. It
// imports the port of clusters, what puts files on nodes, and the facts.
package install
