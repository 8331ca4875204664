package audit

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// Upgrade is from one minor version of Kubernetes 1 to the next, or within one.
type Upgrade struct {
	from, to int // Minor versions.
}

// To returns the version that the upgrade is to, "v1.37".
func (u Upgrade) To() string { return fmt.Sprintf("v1.%d", u.to) }

// ParseUpgrade returns the upgrade of an API server of version from to version to, "v1.37". An empty to is the next
// minor version, known or not: what changes in an unknown one is then not looked at.
func ParseUpgrade(from, to string) (Upgrade, error) {
	have, err := minor(from)
	if err != nil {
		return Upgrade{}, fmt.Errorf("the API server's version: %w", err)
	}
	if to == "" {
		return Upgrade{have, have + 1}, nil
	}
	want, err := ParseTarget(to)
	switch {
	case err != nil:
		return Upgrade{}, err
	case want < have:
		return Upgrade{}, fmt.Errorf("%q is a downgrade of %s; give v1.%d", to, from, have+1)
	case want > have+1:
		return Upgrade{}, fmt.Errorf("%q skips a minor version of %s, which no upgrade may; give "+
			"v1.%d", to, from, have+1)
	}
	return Upgrade{have, want}, nil
}

// ParseTarget returns the minor version of a version that an upgrade can be to.
func ParseTarget(to string) (int, error) {
	want, err := minor(to)
	if err != nil {
		return 0, fmt.Errorf("%w; give for example v1.%d", err, newestMinor)
	}
	if want <= oldestMinor || want > newestMinor {
		return 0, fmt.Errorf("version %q is not known; known are v1.%d to v1.%d", to, oldestMinor+1, newestMinor)
	}
	return want, nil
}

// minor returns the minor version of a version of Kubernetes 1.
func minor(text string) (int, error) {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no version: %w", text, err)
	}
	if v.Major() != 1 {
		return 0, fmt.Errorf("%q is no version of Kubernetes 1", text)
	}
	return int(v.Minor()), nil
}
