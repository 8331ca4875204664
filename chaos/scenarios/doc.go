// Package scenarios holds the named templates of trials, and the cases: scenarios that reproduce a report. There is one
// file for each, and one list of either.
//
// All chance comes from the *rand.Rand they are given, so the package is pure.
package scenarios
