// Program seatrial-runc stands in front of runc on hosts whose bounding set lacks capabilities, so that privileged
// containers get all the capabilities that can be had in place of none.
//
// It cuts what cannot be granted from the file the command line names, and becomes runc with the very same arguments.
// It imports the standard library and ociwrap only: it is compiled static and runs for every container start and exec.
package main
