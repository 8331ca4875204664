// Package faulttest holds every fault to the port: it is to faults what testing/fstest is to file systems. The checks
// run on any cluster, in memory or real.
//
// It imports the ports and chaos/undo, and returns errors: a Go test and a spec can both call it.
package faulttest
