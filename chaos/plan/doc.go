// Package plan turns a scenario and a seed into a plan: numbered steps, complete before anything is touched, and
// legal on paper. The same scenario and seed give the same bytes.
//
// It is pure: it imports the standard library alone. All randomness of a trial is spent here.
package plan
