// Package tidy holds the house rules: a rule that is not a test is a wish. Each rule is a pure function from the tree
// to its violations, tried on bad examples; one test runs them all over this repository.
//
// It imports the standard library only, so that it stays fast and never stands in its own way.
package tidy
