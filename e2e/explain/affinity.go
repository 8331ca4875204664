package explain

import (
	"slices"
	"strconv"
	"strings"
)

// allows reports whether a node may use a volume (component-helpers/storage/volume, CheckNodeAffinity): any term that
// asks for something, and all that it asks for.
func (v *volume) allows(n *node) bool {
	terms := v.Spec.NodeAffinity.Required.Terms
	if len(terms) == 0 {
		return true
	}
	return slices.ContainsFunc(terms, func(t nodeTerm) bool {
		if len(t.Expressions)+len(t.Fields) == 0 {
			return false
		}
		for _, r := range t.Expressions {
			value, has := n.Metadata.Labels[r.Key]
			if !r.matches(value, has) {
				return false
			}
		}
		for _, r := range t.Fields {
			if !r.matches(n.name(), r.Key == "metadata.name") {
				return false
			}
		}
		return true
	})
}

func (r nodeRequirement) matches(value string, has bool) bool {
	switch r.Operator {
	case "In":
		return has && slices.Contains(r.Values, value)
	case "NotIn":
		return !has || !slices.Contains(r.Values, value)
	case "Exists":
		return has
	case "DoesNotExist":
		return !has
	case "Gt", "Lt":
		have, err := strconv.ParseInt(value, 10, 64)
		if !has || err != nil || len(r.Values) != 1 {
			return false
		}
		want, err := strconv.ParseInt(r.Values[0], 10, 64)
		return err == nil && (r.Operator == "Gt" && have > want || r.Operator == "Lt" && have < want)
	}
	return false
}

// asks says in words which nodes may use the volume.
func (v *volume) asks() string {
	var terms []string
	for _, t := range v.Spec.NodeAffinity.Required.Terms {
		var parts []string
		for _, r := range append(slices.Clone(t.Expressions), t.Fields...) {
			parts = append(parts, r.String())
		}
		terms = append(terms, strings.Join(parts, " and "))
	}
	return strings.Join(terms, ", or ")
}

// named returns the values that the volume's node affinity wants: mostly names of nodes.
func (v *volume) named() []string {
	var names []string
	for _, t := range v.Spec.NodeAffinity.Required.Terms {
		for _, r := range append(slices.Clone(t.Expressions), t.Fields...) {
			if r.Operator == "In" {
				names = append(names, r.Values...)
			}
		}
	}
	return names
}

// allowed returns the nodes there are that may use the volume, in order.
func (o *Objects) allowed(v *volume) []*node {
	var out []*node
	for _, name := range keysOf(o.nodes) {
		if n := o.nodes[name]; v.allows(n) {
			out = append(out, n)
		}
	}
	return out
}

// sharedModes reports that a volume may be attached to many nodes (pkg/volume/util, IsMultiAttachAllowed).
func (v *volume) shared() bool {
	return slices.Contains(v.Spec.AccessModes, "ReadWriteMany") || slices.Contains(v.Spec.AccessModes, "ReadOnlyMany")
}
