// Package lock lets one harness at a time use a cluster: two that hurt it beside each other would each find the
// other's faults, and neither could say what came of its own.
//
// It imports the standard library, golang.org/x/sys and client-go.
package lock
