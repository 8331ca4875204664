// Package ledgerfile keeps the file that an observer on a node appends its facts to.
//
// Its promise: what was put is in the file before Put returns, and what could not be written is counted and said. It
// runs on the nodes, so it imports the standard library, golang.org/x/sys/unix and the facts only.
package ledgerfile
