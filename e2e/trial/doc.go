// Package trial is the main path: a plan, carried out once on one cluster, recorded, and judged from disk. The
// command line and the Ginkgo specs both call it.
//
// It imports everything below it; registry.go alone names the concrete faults, workloads, checks and scenarios.
package trial
