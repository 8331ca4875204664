// Package scenarios holds the named templates of trials, and the cases: scenarios that reproduce a report. Each is one
// entry of a list; steps.go has the builders that they share.
//
// All chance comes from the *rand.Rand they are given, so the package is pure.
package scenarios
