// Package fault declares what a fault is: something that goes wrong on purpose, with an injury it must be able to
// show and a way to heal. The guard holds every fault to the order of its life; the conformance test holds every
// fault to the port.
//
// It imports the ports and the facts; concrete faults are in its folders, one file each.
package fault
