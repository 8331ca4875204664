// Package await waits on named conditions with a bound. A wait that ends badly says what was awaited, for how long,
// and what was seen last.
//
// It imports the standard library alone.
package await
