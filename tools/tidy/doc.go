// Package tidy holds the house rules that no linter knows: the order of the folders, the owners of concrete parts and
// the purity of what judges. It runs as a test; everything else is golangci-lint's (.golangci.yml).
package tidy
