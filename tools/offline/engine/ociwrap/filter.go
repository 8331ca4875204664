package ociwrap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// FilterConfig cuts the capabilities outside allowed from a runtime configuration (config.json of an OCI bundle:
// process.capabilities). It returns the new text and the names cut, or the text as it was and no names.
func FilterConfig(config []byte, allowed Set) ([]byte, []string, error) {
	return filter(config, []string{"process", "capabilities"}, allowed)
}

// FilterProcess does the same for a process description (process.json of an exec: capabilities).
func FilterProcess(process []byte, allowed Set) ([]byte, []string, error) {
	return filter(process, []string{"capabilities"}, allowed)
}

// filter edits the text in place of decoding it into a type, because a runtime's JSON holds fields, numbers and orders
// of keys that no type here knows, and they must arrive at the real runtime as they were.
func filter(text []byte, path []string, allowed Set) ([]byte, []string, error) {
	if !json.Valid(text) {
		return nil, nil, fmt.Errorf("filter capabilities: the text is not valid JSON")
	}
	walk := &walker{decoder: json.NewDecoder(bytes.NewReader(text)), text: text, allowed: allowed}
	if err := walk.object(path); err != nil {
		return nil, nil, fmt.Errorf("filter capabilities: %w", err)
	}
	if len(walk.cut) == 0 {
		return text, nil, nil
	}
	var out bytes.Buffer
	from := 0
	for _, edit := range walk.edits {
		out.Write(text[from:edit.from])
		out.Write(edit.with)
		from = edit.to
	}
	out.Write(text[from:])
	return out.Bytes(), walk.cut, nil
}

type edit struct {
	from, to int
	with     []byte
}

type walker struct {
	decoder *json.Decoder
	text    []byte
	allowed Set
	edits   []edit
	cut     []string
	seen    map[string]bool
}

// object visits one value; where it is an object, the members named path[0] are followed. An empty path means that the
// members are the capability sets themselves. Names are compared without case, as the runtime's own decoder does.
func (w *walker) object(path []string) error {
	token, err := w.decoder.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
	case json.Delim('['):
		return w.skipRest()
	default:
		return nil
	}
	for w.decoder.More() {
		key, err := w.decoder.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		switch {
		case len(path) > 0 && strings.EqualFold(name, path[0]):
			err = w.object(path[1:])
		case len(path) == 0:
			err = w.list()
		default:
			err = w.skip()
		}
		if err != nil {
			return err
		}
	}
	_, err = w.decoder.Token()
	return err
}

// list visits one capability set. Anything but a list of strings is left to the real runtime to complain about.
func (w *walker) list() error {
	var raw json.RawMessage
	if err := w.decoder.Decode(&raw); err != nil {
		return err
	}
	var given []string
	if json.Unmarshal(raw, &given) != nil {
		return nil //nolint:nilerr // The real runtime will say it.
	}
	kept := make([]string, 0, len(given))
	for _, name := range given {
		if w.allowed.Has(name) {
			kept = append(kept, name)
			continue
		}
		if w.seen == nil {
			w.seen = map[string]bool{}
		}
		if !w.seen[name] {
			w.seen[name] = true
			w.cut = append(w.cut, name)
		}
	}
	if len(kept) == len(given) {
		return nil
	}
	with, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	to := int(w.decoder.InputOffset())
	w.edits = append(w.edits, edit{from: to - len(raw), to: to, with: with})
	return nil
}

func (w *walker) skip() error {
	var raw json.RawMessage
	return w.decoder.Decode(&raw)
}

// skipRest leaves an array whose opening bracket was read.
func (w *walker) skipRest() error {
	for w.decoder.More() {
		if err := w.skip(); err != nil {
			return err
		}
	}
	_, err := w.decoder.Token()
	return err
}
