// Package system is the machine this program runs on: its files and its commands, behind the small interfaces that
// tools/offline/engine and tools/doctor declare. It imports the standard library and golang.org/x/sys/unix only.
package system
