package scenarios

import (
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// All returns every scenario, in alphabetical order. A new one is one new file and one line here.
func All() []plan.Scenario {
	return []plan.Scenario{
		selftestDeletedRow(),
		selftestIPv6Open(),
		selftestSilentClients(),
		smoke(),
	}
}

// Find returns the scenario of that name, and whether there is one.
func Find(name string) (plan.Scenario, bool) {
	for _, s := range All() {
		if s.Name == name {
			return s, true
		}
	}
	return plan.Scenario{}, false
}

// Names returns the names of all scenarios, in alphabetical order.
func Names() []string {
	all := All()
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

// mysql is the workload of all scenarios so far: small volumes, so that three fit on any machine, and an operation
// every 50 ms for each client, which two cores carry beside a cluster without becoming the bottleneck.
func mysql(replicas int) plan.Workload {
	return plan.Workload{
		Name:        "ledger",
		StatefulSet: "mysql",
		Replicas:    replicas,
		FileSystem:  "ext4",
		VolumeMiB:   512,
		Clients:     2,
		Interval:    plan.Duration(50 * time.Millisecond),
		QuietRows:   1000,
	}
}

func bounds() plan.Bounds {
	return plan.Bounds{
		Ready:     plan.Duration(3 * time.Minute),
		Settle:    plan.Duration(2 * time.Minute),
		BlindGap:  plan.Duration(5 * time.Second),
		MinOps:    50,
		MinAround: 5,
	}
}

func load(commits int) plan.Step {
	return plan.Step{Do: plan.ActionLoad, Commits: commits, Bound: plan.Duration(2 * time.Minute)}
}

func checksum(label string) plan.Step {
	return plan.Step{Do: plan.ActionChecksum, Label: label, Bound: plan.Duration(2 * time.Minute)}
}

func scale(replicas int) plan.Step {
	return plan.Step{Do: plan.ActionScale, Replicas: &replicas, Bound: plan.Duration(3 * time.Minute)}
}

func fault(name string, ordinal int, hold, bound time.Duration, families ...string) plan.Step {
	f := &plan.Fault{Name: name, Ordinal: ordinal, Hold: plan.Duration(hold), Families: families}
	return plan.Step{Do: plan.ActionFault, Fault: f, Bound: plan.Duration(bound)}
}
