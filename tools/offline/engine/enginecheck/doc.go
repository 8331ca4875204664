// Program enginecheck is the one program inside the image that shows whether a container engine is good for kind: it
// waits as the container's first process, and tries what a node needs when it is run beside it.
//
// It imports the standard library only: the image has nothing but this program.
package main
