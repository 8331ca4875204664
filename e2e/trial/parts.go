package trial

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/fixtures"
)

// Parts is everything a trial can be made of. Each list is in alphabetical order.
type Parts struct {
	Cases     []plan.Case
	Checks    []check.Check
	Faults    []fault.Definition
	Scenarios []plan.Scenario
	Storages  []fixtures.StorageDefinition
	Workloads []fixtures.Definition
}

func (p Parts) fault(name string) (fault.Definition, bool) {
	return find(p.Faults, func(d fault.Definition) bool { return d.Name == name })
}

func (p Parts) workload(name string) (fixtures.Definition, bool) {
	return find(p.Workloads, func(d fixtures.Definition) bool { return d.Name == name })
}

func (p Parts) storage(name string) (fixtures.StorageDefinition, bool) {
	return find(p.Storages, func(d fixtures.StorageDefinition) bool { return d.Name == name })
}

// Case returns the case of that name.
func (p Parts) Case(name string) (plan.Case, bool) {
	return find(p.Cases, func(c plan.Case) bool { return c.Name == name })
}

// All returns the cases and the scenarios.
func (p Parts) All() []plan.Case { return slices.Concat(p.Cases, p.Scenarios) }

// Named returns the one of All of that name.
func (p Parts) Named(name string) (plan.Case, bool) {
	return find(p.All(), func(c plan.Case) bool { return c.Name == name })
}

func find[T any](list []T, is func(T) bool) (T, bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	var none T
	return none, false
}
