// Program podnet is the pod network of a built node image, in one daemon on each node: pods get addresses from the
// node's own ranges, every other node's ranges are reached through that node, and what leaves the cluster is
// masqueraded.
//
// It repairs what it finds broken: on every change of the nodes or of this node's routes and links, and twice a minute.
// Its routes carry a protocol number of their own and its nftables rules a table of their own, and it touches no
// others. It imports client-go, netlink and the standard library: it is also compiled outside of this module.
package main
