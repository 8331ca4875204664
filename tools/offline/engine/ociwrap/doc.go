// Package ociwrap removes the capabilities that the host cannot grant from an OCI runtime's JSON, and nothing else.
//
// A container engine asks for every capability the kernel knows when a container is privileged; the runtime refuses
// the whole container when the host's bounding set lacks one of them. The package finds the JSON file that a runc
// command line refers to and removes those capabilities from it; every other value stays as it is written.
// It imports the standard library only, since it is compiled into a program that stands alone.
package ociwrap
