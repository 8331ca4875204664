// Package nightly plans one night of trials: the list of units, the part and order of a shard, how often a seed is
// tried again, and the summary of all results.
//
// It does no I/O: clock, runner and store are passed in. The same results give the same summary, in however many parts
// they were made.
package nightly
