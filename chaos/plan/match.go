package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Match is what an API object must be: the value at a path of fields, held against another. A path may select several
// values, and OpNot wants all of them to be different; the other operators are content with one that is so.
type Match struct {
	Kind  string `json:"kind"`            // One of Kinds.
	Name  string `json:"name,omitempty"`  // Of the object; empty for any of that kind.
	Path  string `json:"path,omitempty"`  // See ParsePath.
	Op    string `json:"op"`              // One of Operators.
	Value string `json:"value,omitempty"` // Text, a number, true or false, as it is in the object.
}

// How a value is held against another. What is put in order must be numbers.
const (
	OpIs      = "="
	OpNot     = "!=" // Something is there, and none of it is that.
	OpLess    = "<"
	OpMost    = "<="
	OpMore    = ">"
	OpLeast   = ">="
	OpThere   = "exists"
	OpAbsent  = "absent"  // The object is there and has nothing at the path.
	OpDeleted = "deleted" // The object is deleted. There is no path.
)

// Operators returns how a value can be held against another.
func Operators() []string {
	return []string{OpIs, OpNot, OpLess, OpMost, OpMore, OpLeast, OpThere, OpAbsent, OpDeleted}
}

// maxValue bounds Match.Value in bytes.
const maxValue = 1024

// kindResources are the kinds that the observer of the API watches, with their resources.
func kindResources() [][2]string {
	return [][2]string{
		{"ControllerRevision", "controllerrevisions"}, {"Event", "events"}, {"Lease", "leases"}, {"Node", "nodes"},
		{"PersistentVolume", "persistentvolumes"}, {"PersistentVolumeClaim", "persistentvolumeclaims"}, {"Pod", "pods"},
		{"StatefulSet", "statefulsets"}, {"StorageClass", "storageclasses"}, {"VolumeAttachment", "volumeattachments"},
	}
}

// Kinds returns the kinds of which an object can be awaited, in alphabetical order.
func Kinds() []string {
	var kinds []string
	for _, kr := range kindResources() {
		kinds = append(kinds, kr[0])
	}
	return kinds
}

// Resource returns the resource of a kind, as it is in the history, and whether it is watched.
func Resource(kind string) (string, bool) {
	for _, kr := range kindResources() {
		if kr[0] == kind {
			return kr[1], true
		}
	}
	return "", false
}

func (m Match) orders() bool { return slices.Contains([]string{OpLess, OpMost, OpMore, OpLeast}, m.Op) }

func (m Match) compares() bool { return m.orders() || m.Op == OpIs || m.Op == OpNot }

// Matcher is a Match that is ready to be held against objects. It is safe for concurrent use.
type Matcher struct {
	match    Match
	resource string
	path     Path
}

// Compile makes a match ready. It takes every match that Plan.Validate does.
func (m Match) Compile() (Matcher, error) {
	resource, ok := Resource(m.Kind)
	if !ok {
		return Matcher{}, fmt.Errorf("compile match: kind %q is not watched", m.Kind)
	}
	c := Matcher{match: m, resource: resource}
	if m.Op == OpDeleted {
		return c, nil
	}
	var err error
	if c.path, err = ParsePath(m.Path); err != nil {
		return Matcher{}, fmt.Errorf("compile match: %w", err)
	}
	return c, nil
}

// Of reports that an object is one of those that are meant, by its resource and name.
func (c Matcher) Of(resource, name string) bool {
	return c.resource == resource && (c.match.Name == "" || c.match.Name == name)
}

// Holds reports that an object is as it must be. Raw is the object as JSON; one that is deleted, or cannot be read, is
// as it must be only where it must be deleted.
func (c Matcher) Holds(raw []byte, deleted bool) bool {
	if deleted || c.match.Op == OpDeleted {
		return deleted && c.match.Op == OpDeleted
	}
	var object any
	if json.Unmarshal(raw, &object) != nil {
		return false
	}
	found := c.path.Select(object)
	switch c.match.Op {
	case OpThere:
		return len(found) > 0
	case OpAbsent:
		return len(found) == 0
	case OpNot:
		return len(found) > 0 && !slices.ContainsFunc(found, c.match.is)
	case OpIs:
		return slices.ContainsFunc(found, c.match.is)
	}
	return slices.ContainsFunc(found, c.match.inOrder)
}

// is reports that a value of an object is that of the match. A number is, whatever way it is written.
func (m Match) is(v any) bool {
	switch v := v.(type) {
	case string:
		return v == m.Value
	case bool:
		return strconv.FormatBool(v) == m.Value
	case float64:
		n, ok := number64(m.Value)
		return ok && n == v
	}
	return false
}

func (m Match) inOrder(v any) bool {
	have, ok := v.(float64)
	want, also := number64(m.Value)
	if !ok || !also {
		return false
	}
	switch m.Op {
	case OpLess:
		return have < want
	case OpMost:
		return have <= want
	case OpMore:
		return have > want
	}
	return m.Op == OpLeast && have >= want
}

// number64 reads a finite number.
func number64(s string) (float64, bool) {
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
}

// String says what an object must be, on one line.
func (m Match) String() string {
	name := m.Kind
	if m.Name != "" {
		name += fmt.Sprintf(" %q", m.Name)
	}
	switch {
	case m.Op == OpDeleted:
		return name + " is deleted"
	case m.Op == OpThere:
		return fmt.Sprintf("%s has %s", name, quoted(m.Path))
	case m.Op == OpAbsent:
		return fmt.Sprintf("%s has no %s", name, quoted(m.Path))
	}
	return fmt.Sprintf("%s has %s %s %q", name, quoted(m.Path), m.Op, m.Value)
}

// quoted leaves what can be shown as it is.
func quoted(s string) string {
	if q := strconv.Quote(s); q[1:len(q)-1] != strings.ReplaceAll(s, `"`, `\"`) {
		return q
	}
	return s
}

// short cuts what is too long to be shown.
func short(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
