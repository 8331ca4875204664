// Package draft has the pieces that scenarios and cases are written with: workloads, bounds and steps with the values
// that most of them share.
//
// It is pure: it imports the standard library and chaos/plan.
package draft
