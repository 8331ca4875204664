// Package check holds the judges: pure functions from a history to a result. Each defends one promise, in one
// sentence.
//
// It imports the standard library, chaos/history and chaos/plan, and nothing that can fail at run time.
package check
