// Package procs reads processes from /proc: which run, since when on the boot clock, and in which pod.
//
// Its promise: what it reports was true of the process with that pid and start time, whatever the process calls
// itself. It runs on the nodes, so it imports the standard library, golang.org/x/sys/unix and the facts only.
package procs
