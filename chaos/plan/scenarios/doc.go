// Package scenarios holds the named templates of trials, one file each, and the one list of them.
//
// It is pure: it imports the standard library, chaos/plan and chaos/plan/draft. All chance comes from the
// *rand.Rand it is given.
package scenarios
