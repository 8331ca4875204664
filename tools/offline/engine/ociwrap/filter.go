package ociwrap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Filter removes the capabilities outside allowed from a file of that kind, and reports whether there were any. A
// text with nothing to remove is returned as it is.
func Filter(text []byte, kind Kind, allowed Set) (_ []byte, changed bool, err error) {
	if !json.Valid(text) {
		return nil, false, errors.New("filter capabilities: the text is not valid JSON")
	}
	path := []string{"capabilities"}
	if kind == Config {
		path = []string{"process", "capabilities"}
	}
	out, err := filterObject(text, path, allowed)
	if err != nil {
		return nil, false, fmt.Errorf("filter capabilities: %w", err)
	}
	if out == nil {
		return text, false, nil
	}
	return out, true, nil
}

// filterObject filters the capability sets in the object at that path below text; nil means that nothing changes. Only
// the objects on the way are decoded, and their members kept as they are: no type here knows all fields of a runtime's
// JSON, nor holds all of its numbers. Names are compared without case, as the runtime's own decoder does.
func filterObject(text json.RawMessage, path []string, allowed Set) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return nil, nil //nolint:nilerr // It is no object; the runtime refuses it.
	}
	changed := false
	for name, value := range members {
		var filtered json.RawMessage
		var err error
		switch {
		case len(path) == 0:
			filtered, err = filterSet(value, allowed)
		case strings.EqualFold(name, path[0]):
			filtered, err = filterObject(value, path[1:], allowed)
		}
		if err != nil {
			return nil, err
		}
		if filtered != nil {
			members[name], changed = filtered, true
		}
	}
	if !changed {
		return nil, nil
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(members)
	return bytes.TrimSpace(out.Bytes()), err
}

// filterSet filters one capability set; nil means that nothing changes.
func filterSet(text json.RawMessage, allowed Set) (json.RawMessage, error) {
	var given []string
	if json.Unmarshal(text, &given) != nil {
		return nil, nil //nolint:nilerr // It is no list of names; the runtime refuses it.
	}
	kept := make([]string, 0, len(given))
	for _, name := range given {
		if allowed.Has(name) {
			kept = append(kept, name)
		}
	}
	if len(kept) == len(given) {
		return nil, nil
	}
	return json.Marshal(kept)
}
