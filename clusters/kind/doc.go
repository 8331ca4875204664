// Package kind promises clusters that are ready when Create returns, gone when Delete returns, and found again by List
// after any crash. It makes them with kind's Go API and handles their nodes through the command line of the container
// engine that kind uses. It may import kind, client-go, the ports in clusters and chaos/await.
//
// # Whose a cluster is
//
// Every node container is made with one extra read-only bind mount of /dev/null at /etc/seatrial/run/<run ID>. The
// engine keeps it with the container from the moment it exists, so a cluster that was half made, is stopped, or has a
// dead API server still says whose it is, and no file on the host has to be kept for it. The Kubernetes nodes carry the
// run ID as the label seatrial.dev/run as well.
//
// # Addresses after a restart
//
// Docker gives a starting container the lowest free address of each family. So a node gets its own back unless a lower
// one is free: because another node is down too, or a container of somebody else has gone. Start and Reboot therefore
// take all lower free addresses for the moment, with containers that do nothing and end by themselves (see hold.go).
// When the addresses differ nevertheless, since somebody took them meanwhile, kind's entrypoint rewrites the node's own
// configuration, and the cluster lives on; but what a trial knew about addresses is wrong, so Start and Reboot compare
// and return an *AddressError. Podman and nerdctl count on and hardly ever give an address twice: expect the error
// there.
package kind
