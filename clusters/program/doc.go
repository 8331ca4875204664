// Package program finds the programs of this module that run on nodes, or builds them. Its promise: what it returns is
// there and can be executed.
//
// It imports the standard library, and runs the go command.
package program
