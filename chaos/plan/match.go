package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/util/jsonpath"
	kjson "sigs.k8s.io/json"
)

// Match compares the value at a path of an API object. If the path selects several values, OpNot needs all of them to
// differ; each other operator needs one that matches.
type Match struct {
	Kind  string `json:"kind"`            // One of Kinds.
	Name  string `json:"name,omitempty"`  // Of the object; empty for any of that kind.
	Path  string `json:"path,omitempty"`  // A JSONPath as kubectl takes it, without braces: .status.readyReplicas.
	Op    string `json:"op"`              // One of Operators.
	Value string `json:"value,omitempty"` // Text, a number, true or false, as it is in the object.
}

// The operators of a match. <, <=, > and >= compare numbers.
const (
	OpIs      = "="
	OpNot     = "!=" // There is a value, and no value equals.
	OpLess    = "<"
	OpMost    = "<="
	OpMore    = ">"
	OpLeast   = ">="
	OpThere   = "exists"
	OpAbsent  = "absent"  // The object is there and has nothing at the path.
	OpDeleted = "deleted" // The object is deleted. There is no path.
)

// Operators returns the operators of a match.
func Operators() []string {
	return []string{OpIs, OpNot, OpLess, OpMost, OpMore, OpLeast, OpThere, OpAbsent, OpDeleted}
}

// The limits of a match, in bytes.
const (
	maxPath  = 512
	maxValue = 1024
)

// Kinds returns the watched kinds, whose objects can be awaited, in alphabetical order.
func Kinds() []string {
	return []string{
		"ControllerRevision", "Event", "Lease", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod",
		"StatefulSet", "StorageClass", "VolumeAttachment",
	}
}

// Resource returns the resource of a kind, as it is in the history, and whether it is watched.
func Resource(kind string) (string, bool) {
	plural := strings.ToLower(kind) + "s"
	if kind == "StorageClass" {
		plural = "storageclasses"
	}
	return plural, slices.Contains(Kinds(), kind)
}

// orders are the operators that compare numbers.
func orders() map[string]func(have, want float64) bool {
	return map[string]func(have, want float64) bool{
		OpLess:  func(have, want float64) bool { return have < want },
		OpMost:  func(have, want float64) bool { return have <= want },
		OpMore:  func(have, want float64) bool { return have > want },
		OpLeast: func(have, want float64) bool { return have >= want },
	}
}

// Compile returns a function that reports whether an object of the kind matches. Raw is the object as JSON; one that is
// deleted, or cannot be read, matches only OpDeleted. It takes every match that Plan.Validate does.
func (m Match) Compile() (func(raw []byte, deleted bool) bool, error) {
	if _, ok := Resource(m.Kind); !ok {
		return nil, fmt.Errorf("compile match: kind %q is not watched", m.Kind)
	}
	if m.Op == OpDeleted {
		return func(_ []byte, deleted bool) bool { return deleted }, nil
	}
	path, err := parsePath(m.Path)
	if err != nil {
		return nil, fmt.Errorf("compile match: %w", err)
	}
	return func(raw []byte, deleted bool) bool {
		var object any
		return !deleted && kjson.UnmarshalCaseSensitivePreserveInts(raw, &object) == nil && m.holds(path, object)
	}, nil
}

// Of reports whether an object is of the kind, and has the name if the match has one.
func (m Match) Of(resource, name string) bool {
	own, _ := Resource(m.Kind)
	return own == resource && (m.Name == "" || m.Name == name)
}

// holds compares what an object has at the path.
func (m Match) holds(path *jsonpath.JSONPath, object any) bool {
	var found []any
	results, _ := path.FindResults(object) // A path that leads nowhere finds nothing.
	for _, values := range results {
		for _, v := range values {
			if v.IsValid() && v.CanInterface() {
				found = append(found, v.Interface())
			}
		}
	}
	switch m.Op {
	case OpThere:
		return len(found) > 0
	case OpAbsent:
		return len(found) == 0
	case OpNot:
		return len(found) > 0 && !slices.ContainsFunc(found, m.is)
	case OpIs:
		return slices.ContainsFunc(found, m.is)
	}
	want, ok := number64(m.Value)
	order := orders()[m.Op]
	return ok && order != nil && slices.ContainsFunc(found, func(v any) bool {
		have, ok := asNumber(v)
		return ok && order(have, want)
	})
}

// parsePath reads a path of fields, indexes, filters and *. It refuses the rest of kubectl's templates: text, ranges,
// and recursive descent, whose cost has no bound.
func parsePath(path string) (*jsonpath.JSONPath, error) {
	switch {
	case len(path) > maxPath:
		return nil, fmt.Errorf("it has %d bytes, at most %d are taken", len(path), maxPath)
	case path == "":
		return nil, errors.New("it is empty")
	case path[0] != '.' && path[0] != '[', strings.ContainsAny(path, "{}"), strings.Contains(path, ".."):
		return nil, errors.New("it is no path of fields")
	}
	parser, err := jsonpath.Parse("path", "{"+path+"}")
	if err != nil {
		return nil, err
	}
	if len(parser.Root.Nodes) != 1 || !plainPath(parser.Root.Nodes[0]) {
		return nil, errors.New("it is no path of fields")
	}
	j := jsonpath.New("path").AllowMissingKeys(true)
	return j, j.Parse("{" + path + "}")
}

// plainPath reports that a node of a path is one of those that parsePath takes.
func plainPath(n jsonpath.Node) bool {
	list, ok := n.(*jsonpath.ListNode)
	if !ok {
		return slices.Contains([]jsonpath.NodeType{
			jsonpath.NodeField, jsonpath.NodeArray, jsonpath.NodeFilter, jsonpath.NodeWildcard}, n.Type())
	}
	return !slices.ContainsFunc(list.Nodes, func(n jsonpath.Node) bool { return !plainPath(n) })
}

// is reports whether a value equals that of the match. Numbers are equal however they are written.
func (m Match) is(v any) bool {
	switch v := v.(type) {
	case string:
		return v == m.Value
	case bool:
		return strconv.FormatBool(v) == m.Value
	}
	have, ok := asNumber(v)
	want, also := number64(m.Value)
	return ok && also && have == want
}

func asNumber(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// number64 reads a finite number.
func number64(s string) (float64, bool) {
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
}

// String describes the match on one line.
func (m Match) String() string {
	name := m.Kind
	if m.Name != "" {
		name += fmt.Sprintf(" %q", m.Name)
	}
	switch m.Op {
	case OpDeleted:
		return name + " is deleted"
	case OpThere:
		return fmt.Sprintf("%s has %s", name, Printable(m.Path, maxPath))
	case OpAbsent:
		return fmt.Sprintf("%s has no %s", name, Printable(m.Path, maxPath))
	}
	return fmt.Sprintf("%s has %s %s %q", name, Printable(m.Path, maxPath), m.Op, m.Value)
}

func (v *validator) match(at string, m Match) {
	v.OneOf(at+".kind", "watched kind", m.Kind, Kinds()...)
	if m.Name != "" && len(validation.IsDNS1123Subdomain(m.Name)) > 0 {
		v.Add(at+".name", "use the object's name: lower-case letters, digits, hyphens and dots, at most 253",
			"%q is no name of an object", m.Name)
	}
	if !v.OneOf(at+".op", "operator", m.Op, Operators()...) {
		return
	}
	if m.Op == OpDeleted {
		if m.Path != "" {
			v.Add(at+".path", "leave it out", "%q is of the whole object", m.Op)
		}
	} else if _, err := parsePath(m.Path); err != nil {
		v.Add(at+".path", `write it as .status.readyReplicas or .status.conditions[?(@.type=="Ready")].status`,
			"%q: %v", Printable(m.Path, maxShort), err)
	}
	order := orders()[m.Op] != nil
	if !order && m.Op != OpIs && m.Op != OpNot && m.Value != "" {
		v.Add(at+".value", "leave it out", "%q compares with nothing", m.Op)
	}
	if len(m.Value) > maxValue {
		v.Add(at+".value", fmt.Sprintf("use at most %d bytes", maxValue), "it has %d bytes", len(m.Value))
	}
	if _, ok := number64(m.Value); order && !ok {
		v.Add(at+".value", "use a number", "%q cannot be put in order by %q", Printable(m.Value, maxShort), m.Op)
	}
}
