// Package sidecars makes the programs that a CSI driver is run with: external-attacher, external-provisioner and
// external-resizer, from their Go modules, exactly as pinned.
//
// It imports the building blocks of tools/offline/nodeimage and the standard library.
package sidecars
