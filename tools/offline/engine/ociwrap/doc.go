// Package ociwrap keeps only those capabilities in an OCI runtime's JSON that the host can grant, and nothing else.
//
// A container engine asks for every capability the kernel knows when a container is privileged; the runtime refuses
// the whole container when the host's bounding set lacks one of them. The functions here find the JSON file a runc
// command line refers to and cut the capabilities that cannot be had out of it, byte for byte the same otherwise.
// It imports the standard library only, since it is compiled into a program that stands alone.
package ociwrap
