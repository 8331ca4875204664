// Package controlplane holds the faults of control-plane programs, and settings that are changed for a time, one file
// each. Their victims are the control-plane nodes, whichever node the plan names.
//
// It imports the ports below chaos, clusters, and the API's types.
package controlplane
