// Package nightly is one night of trials: the list of what is carried out, which part of it a shard takes and in which
// order, how often a seed is tried again, and what all results come to.
//
// It is pure: it does no I/O, and the clock, the runner and the store are handed in. The same results give the same
// summary, wherever and in however many parts they were made.
package nightly
