// Package history holds the facts of one trial: what was done, what was seen, and when it can have happened.
//
// It is the only input of judgement. It is pure: it imports the standard library alone, and nothing in it can fail
// at run time except decoding.
package history
