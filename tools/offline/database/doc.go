// Package database makes the database image on hosts that have no container registry: MySQL from Debian packages, cut
// down to what a server and its checks need, with the start program as entry point. The same inputs never build
// twice.
//
// It may import the store, the program runner and the Debian roots of tools/offline/nodeimage, go-containerregistry and
// the standard library.
package database
