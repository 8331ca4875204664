// Package bootclock reads the clock by which everything in a history is ordered. It imports the facts alone.
package bootclock
