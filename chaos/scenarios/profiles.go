package scenarios

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/plan"
)

// Profile is the trials of a certificate.
type Profile struct {
	Name, Summary string
	Scenarios     []string // In the order in which they are carried out.
}

// Profiles returns all profiles, the shortest first. Each has what the one before it has.
func Profiles() []Profile {
	quick := []string{"set-scale-light", "set-canary-light", "smoke", "database-trouble", "smoke-disk"}
	standard := slices.Concat(quick, []string{
		"network", "disk-trouble", "control-plane", "power-loss", "overlap", "set-scale", "set-canary", "set-on-delete",
		"set-recreate", "set-retention", "set-min-ready-light", "set-max-unavailable-light", "set-drain-light",
	})
	long := slices.Clone(standard)
	for _, s := range All() {
		own := plan.Make(s, 1).Kubernetes != "" // It begins with a version of its own, and upgrades it.
		if s.Expect == "PASS" && !own && !slices.Contains(long, s.Name) {
			long = append(long, s.Name)
		}
	}
	return []Profile{
		{"quick", "the first trials of a cluster, about 15 min", quick},
		{"standard", "every kind of fault once under MySQL, about 1 h", standard},
		{"long", "every scenario that a sound cluster passes", long},
	}
}
