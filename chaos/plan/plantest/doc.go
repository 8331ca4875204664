// Package plantest makes plans that must be refused, thousands of them, out of plans that are legal.
//
// It imports the standard library and chaos/plan. Nothing but tests may import it.
package plantest
