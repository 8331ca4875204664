package scenarios

import "github.com/seatrial/seatrial/chaos/plan"

// All returns every scenario, in alphabetical order. A new one is one new file and one line here.
func All() []plan.Scenario {
	return []plan.Scenario{
		selftestDeletedRow(),
		selftestIPv6Open(),
		selftestSilentClients(),
		smoke(),
		smokeDisk(),
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
