// Program seatrial-agent runs on a node: it keeps the ledger of mounts and processes, and answers the harness.
//
// It must run on any Linux node without anything beside it, so it is built with CGO_ENABLED=0 and imports the
// standard library, golang.org/x/sys/unix and those packages of this module that do the same. It opens no listening
// socket. Data goes to standard output, messages to standard error; it exits 0 when done, 1 when it failed and 254
// for bad arguments.
package main
