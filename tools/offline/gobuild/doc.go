// Package gobuild compiles pinned Go modules into a store: the same sources, pins, flags and Go never twice.
//
// It imports the standard library, store and proc.
package gobuild
