// Program seatrial-runc stands in front of runc on hosts whose bounding set lacks capabilities, so that privileged
// containers get all the capabilities that can be had in place of none.
//
// It removes what cannot be granted from the file that the command line names, and becomes runc with the same
// arguments. It imports the standard library and ociwrap only: it is linked statically and runs for every container
// start and exec.
package main
