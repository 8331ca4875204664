// Package faulttest is the conformance suite of faults: what every fault must do, checked on a fake cluster, and on a
// real one when SEATRIAL_LONG is set. Only its own tests use it, so all of it is in test files.
package faulttest
