// Package clusters declares where a trial runs: the ports Provider, Cluster and Node, and what a node can do beyond
// running commands. Concrete providers are in its folders.
package clusters
