// Package layers writes and reads the layers of container images, and puts images from them, without a container
// engine.
//
// The same content gives the same bytes: names are sorted and times are those of 1970. It imports the standard
// library, go-containerregistry and a zstd library.
package layers
