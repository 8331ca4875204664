// Package debian makes root file systems of Debian suites, as tar files, with nothing but apt: the same suite and
// packages are never put together twice.
//
// The mirror is the one that this host's own apt configuration names. It imports the standard library, store and
// proc.
package debian
