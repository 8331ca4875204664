// Package observe is the home of the recorders; each is a package of its own below it.
//
// Its promise: an observer appends facts and judges nothing, and what it could not see is itself a fact. Observers
// import the ports and the facts, never the judges.
package observe
