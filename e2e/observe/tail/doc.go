// Package tail brings files of facts that the nodes keep into the history of a trial.
//
// Its promise: every line of a node's file becomes one fact, once and in its order, whatever happens to the node
// meanwhile; and a time for which that cannot be said is recorded as a gap. It imports the port of clusters, the facts,
// and the place of the agent on a node.
package tail
