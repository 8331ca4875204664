// Package suites runs the scenarios as Ginkgo specs on one real cluster: pick a scenario, run it, assert its verdict.
//
// The specs are thin: what a trial is stands in e2e/trial, and the same code serves the command line.
package suites
