package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Path leads to values within an API object.
type Path struct{ parts []part }

// part is one step of a path. Exactly one of its ways is meant.
type part struct {
	field string // The field of that name.
	index int    // The element of that index, when list is set.
	list  bool
	all   bool   // Every element of a list, or every value of a map.
	key   string // Those elements whose field of this name is value.
	value string
}

// The limits of a path.
const (
	maxPath  = 512 // Bytes.
	maxParts = 32
)

// ParsePath reads a path: fields, each with a dot before it, and what is to be taken of lists and maps in brackets.
//
//	path    = step { step }
//	step    = "." name | "[" inside "]"
//	inside  = index | "*" | string | name "=" ( word | string )
//	name    = letter, digit, "_" or "-", one at least
//	index   = digits; counts from 0
//	word    = what has no bracket, quotation mark, blank or control character, one at least
//	string  = a string of JSON, with its quotation marks
//
// For example: .status.readyReplicas, .spec.containers[0].image, .metadata.labels["app.kubernetes.io/name"],
// .spec.taints[*].key, .status.conditions[type=Ready].status.
func ParsePath(text string) (Path, error) {
	var p Path
	if len(text) > maxPath {
		return p, fmt.Errorf("the path has %d bytes, at most %d are taken", len(text), maxPath)
	}
	for rest := text; rest != ""; {
		var next part
		var err error
		at := len(text) - len(rest)
		switch rest[0] {
		case '.':
			next.field, rest = name(rest[1:])
			if next.field == "" {
				err = errors.New("a name must follow the dot")
			}
		case '[':
			next, rest, err = bracket(rest[1:])
		default:
			err = errors.New("a dot or a bracket must come here")
		}
		if err != nil {
			return Path{}, fmt.Errorf("at byte %d: %w", at, err)
		}
		if p.parts = append(p.parts, next); len(p.parts) > maxParts {
			return Path{}, fmt.Errorf("the path has more than %d parts", maxParts)
		}
	}
	if len(p.parts) == 0 {
		return p, errors.New("it is empty")
	}
	return p, nil
}

// name cuts a name off the beginning of text.
func name(text string) (name, rest string) {
	for i := range len(text) {
		c := text[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
		if !letter {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// bracket reads what is between brackets, the opening one of which is cut off already.
func bracket(text string) (part, string, error) {
	if strings.HasPrefix(text, "*") {
		return closed(part{all: true}, text[1:])
	}
	if strings.HasPrefix(text, `"`) {
		s, rest, err := jsonString(text)
		if err != nil {
			return part{}, "", err
		}
		return closed(part{field: s}, rest)
	}
	key, rest := name(text)
	if key == "" {
		return part{}, "", errors.New(`an index, *, a string or name=value must be in brackets`)
	}
	value, selects := strings.CutPrefix(rest, "=")
	if !selects {
		index, err := strconv.ParseUint(key, 10, 31)
		if err != nil {
			return part{}, "", fmt.Errorf("%q is no index", short(key))
		}
		return closed(part{list: true, index: int(index)}, rest)
	}
	if strings.HasPrefix(value, `"`) {
		s, rest, err := jsonString(value)
		if err != nil {
			return part{}, "", err
		}
		return closed(part{key: key, value: s}, rest)
	}
	end := strings.IndexFunc(value, func(r rune) bool {
		return strings.ContainsRune(`[]"`, r) || r <= ' ' || r == 0x7f
	})
	if end <= 0 {
		return part{}, "", fmt.Errorf("a value must follow %s=", key)
	}
	return closed(part{key: key, value: value[:end]}, value[end:])
}

func closed(p part, rest string) (part, string, error) {
	rest, ok := strings.CutPrefix(rest, "]")
	if !ok {
		return part{}, "", errors.New("a bracket is not closed")
	}
	return p, rest, nil
}

// jsonString cuts a string of JSON off the beginning of text.
func jsonString(text string) (value, rest string, err error) {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			if err := json.Unmarshal([]byte(text[:i+1]), &value); err != nil {
				return "", "", fmt.Errorf("read the string: %w", err)
			}
			return value, text[i+1:], nil
		}
	}
	return "", "", errors.New("a string does not end")
}

// Select returns the values that the path leads to in an object as encoding/json decodes it into an any.
func (p Path) Select(object any) []any {
	found := []any{object}
	for _, step := range p.parts {
		var next []any
		for _, v := range found {
			next = step.of(v, next)
		}
		found = next
	}
	return found
}

// of appends what the part takes of a value.
func (p part) of(v any, into []any) []any {
	switch v := v.(type) {
	case map[string]any:
		if p.all {
			for _, inner := range v {
				into = append(into, inner)
			}
		} else if inner, ok := v[p.field]; ok && !p.list && p.key == "" {
			into = append(into, inner)
		}
	case []any:
		switch {
		case p.all:
			into = append(into, v...)
		case p.list && p.index < len(v):
			into = append(into, v[p.index])
		case p.key != "":
			for _, inner := range v {
				fields, ok := inner.(map[string]any)
				if ok && (Match{Value: p.value}).is(fields[p.key]) {
					into = append(into, inner)
				}
			}
		}
	}
	return into
}
