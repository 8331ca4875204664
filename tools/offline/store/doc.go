// Package store keeps the results of long work on disk, each under the digest of what it was made from.
//
// Its promise: a result that is there is whole, and the same inputs are never worked on twice. It imports the
// standard library and golang.org/x/sys only.
package store
