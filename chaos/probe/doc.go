// Package probe looks at the network and the processes of the node it runs on, for the agent: whether an address
// answers, when an established flow goes dead, which processes live. It changes nothing and opens no listening socket.
//
// It imports the standard library, golang.org/x/sys/unix and the facts, so that the agent stays small.
package probe
