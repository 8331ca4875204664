// Package check holds the judges: pure functions from a world to a result. Each defends one promise, in one sentence.
package check
