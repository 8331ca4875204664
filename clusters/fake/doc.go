// Package fake promises a cluster in memory that does exactly what a test told it to, and keeps a transcript of what it
// was asked: it can answer, refuse, break down half-way, and answer late. It may import the standard library and the
// port in clusters.
//
// A node refuses every command for which no answer was scripted, so that code which does the wrong thing fails.
package fake
