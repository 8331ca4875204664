// Package injury does harm to the file system of a volume on the node that has it mounted, looks at it as its victim
// does, and undoes it by the mark that it left before; it works without the API server, the kubelet and the harness.
//
// It runs in the agent. It imports the standard library, the ports beside it in chaos, fixtures/loopdev,
// clusters/bootclock and the facts; commands go through a heal.Runner.
package injury
