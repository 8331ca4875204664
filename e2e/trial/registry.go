package trial

import (
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/network"
	"github.com/seatrial/seatrial/chaos/fault/node"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/scenarios"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/fixtures"
	"github.com/seatrial/seatrial/fixtures/mysql"
)

// AllParts is the one registry: a new fault or workload is one new file and one line here. Each list is in
// alphabetical order of the names; checks and scenarios have lists of their own beside them.
func AllParts() Parts {
	return Parts{
		Checks: check.All(),
		// tidy:list
		Faults: []fault.Definition{
			node.KubeletKill(),
			network.Partition(),
			node.Reboot(),
		},
		Scenarios: scenarios.All(),
		// tidy:list
		Workloads: []fixtures.Definition{
			mysql.Definition(),
		},
	}
}

// Validate holds a plan against the parts there are, before there is a cluster.
func Validate(parts Parts, p plan.Plan) error {
	names := make([]string, 0, len(parts.Workloads))
	for _, w := range parts.Workloads {
		names = append(names, w.Name)
	}
	return p.Validate(fault.Caps(parts.Faults, names, nil))
}
