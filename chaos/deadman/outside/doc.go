// Package outside is the dead-man beside the cluster: a process on this machine, in a session of its own, that brings a
// node back when its time is over, although the harness that started it is dead. It ends by itself when it is disarmed.
//
// What it is to do is in a file, its order; the lock on that file says that it lives. It listens on nothing. The
// package imports the standard library, golang.org/x/sys and the ports beside it.
package outside
