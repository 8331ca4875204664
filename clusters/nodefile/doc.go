// Package nodefile puts files on nodes. Its promise: what is at the path is the very content that was given, or what
// was there before.
//
// It imports the port of clusters and the standard library.
package nodefile
