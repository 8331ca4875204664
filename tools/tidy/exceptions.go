package tidy

// Exceptions returns the places that a rule does not hold for. Keep it small: each row is a debt with a reason.
func Exceptions() []Exception {
	const onNode = "the agent is what acts on the node: it links the on-node halves of the parts it serves"
	const fake = "a node that crashes on demand is what the fake is for; it is linked into tests alone"
	const volumes = "the StatefulSets claim local volumes; a second kind of volume will need a port in fixtures"
	// tidy:list
	return []Exception{
		{Rule: "layers", Path: "fixtures/mysql/*.go", What: "peer fixtures/localpv", Reason: volumes},
		{Rule: "layers", Path: "fixtures/mysql/image", What: "peer clusters/nodeimage/",
			Reason: "both images are made from Debian packages, by one piece of code"},
		{Rule: "layers", Path: "tools/seatrial", What: "peer tools/host/",
			Reason: "doctor, setup and clean are the same code in both programs"},
		{Rule: "panic", Path: "clusters/bootclock", Reason: "the clock cannot fail on Linux"},
		{Rule: "panic", Path: "clusters/fake", Reason: fake},
		{Rule: "registry", Path: "fixtures/mysql/*.go", What: "fixtures/localpv", Reason: volumes},
		{Rule: "registry", Path: "tools/agent", Reason: onNode},
	}
}
