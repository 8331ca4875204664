// Package mark names everything that a fault leaves on a node, so that it can be found and undone without a journal,
// and so that nothing of anybody else is ever touched.
//
// It imports the standard library alone.
package mark
