// Package nodeimage makes kind node images on hosts that have no container registry, from Go modules and Debian
// packages alone: the same inputs never build twice, and an interrupted build goes on where it stopped.
//
// It imports its own subpackages, go-containerregistry and the standard library.
package nodeimage
