// Program host makes a container engine that kind can use, where there is none, and takes it away again.
//
// Data goes to standard output, messages to standard error; it exits 0 when done, 254 for bad arguments and 255 when
// it failed.
package main
