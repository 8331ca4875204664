package tidy

// Exceptions returns the places that a rule does not hold for. Keep it small: each row is a debt with a reason.
func Exceptions() []Exception {
	const onNode = "the agent is what acts on the node: it links the on-node halves of the parts it serves"
	const fake = "a node that crashes on demand is what the fake is for; it is linked into tests alone"
	// tidy:list
	return []Exception{
		{Rule: "layers", Path: "fixtures/mysql/image", What: "peer clusters/nodeimage/",
			Reason: "both images are made from Debian packages, by one piece of code"},
		{Rule: "layers", Path: "fixtures/shareddisk/sidecars", What: "peer clusters/nodeimage/",
			Reason: "the sidecars are compiled from pinned modules as the node image is, by one piece of code"},
		{Rule: "layers", Path: "tools/seatrial", What: "peer tools/host/",
			Reason: "doctor, setup and clean are the same code in both programs"},
		{Rule: "panic", Path: "clusters/bootclock", Reason: "the clock cannot fail on Linux"},
		{Rule: "panic", Path: "clusters/fake", Reason: fake},
		{Rule: "parts list", Path: "chaos/fault/mesh", What: "faulttest_test.go",
			Reason: "its world has a Chaos Mesh, and is in a test of its own beside the others'"},
		{Rule: "registry", Path: "tools/agent", Reason: onNode},
		{Rule: "shell", Path: "clusters/nodeimage/rootspec.go", What: "names the shell bash",
			Reason: "a package of the node's root file system, which kubeadm and kind's entrypoint need"},
	}
}
