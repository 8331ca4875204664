// Package gopin pins Go modules that are compiled without being dependencies of this module: a go.mod and a go.sum for
// each, kept beside the sources, say exactly what a program is made from.
//
// It imports the standard library, golang.org/x/mod and proc.
package gopin
