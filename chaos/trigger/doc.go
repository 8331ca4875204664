// Package trigger has a node carry out a command as soon as a CSI call is seen there: no network and no harness is
// between the two.
//
// It imports chaos/mark, chaos/plan, clusters and chaos/history.
package trigger
