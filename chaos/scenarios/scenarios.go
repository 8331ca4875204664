package scenarios

import (
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
)

// All returns every scenario, in alphabetical order. A new one is one new file and one line here or in sets.
func All() []plan.Scenario {
	all := []plan.Scenario{
		controlPlane(),
		diskTrouble(),
		network(),
		overlap(),
		powerLoss(),
		selftestDamage("file-truncate", "the second half is cut off one"),
		selftestDamage("page-flip", "bytes are flipped in a page of one"),
		selftestCachedPage(),
		selftestDeletedRow(),
		selftestIPv6Open(),
		selftestPowerLossFlush(0),
		selftestPowerLossFlush(2),
		selftestSilentClients(),
		smoke(),
		smokeDisk(),
	}
	for _, s := range sets() {
		all = append(all, s.variants()...)
	}
	slices.SortFunc(all, func(a, b plan.Scenario) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// sets are the scenarios of a StatefulSet; each is several.
func sets() []setScenario {
	return []setScenario{
		setBlocked(),
		setBurst(),
		setCanary(),
		setDrain(),
		setMaxUnavailable(),
		setMinReady(),
		setNodeGone(),
		setOnDelete(),
		setRecreate(),
		setRetention("", ""),
		setRetention(plan.PolicyDelete, ""),
		setRetention("", plan.PolicyDelete),
		setRetention(plan.PolicyDelete, plan.PolicyDelete),
		setScale(),
		setStart(),
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
