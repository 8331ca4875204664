// Package controlplane holds the faults of the control plane's own programs and the settings that are held for a time,
// one file each. Their victims are the nodes of the control plane, whichever node the plan names.
//
// It imports the ports below chaos and clusters, and the API's types.
package controlplane
