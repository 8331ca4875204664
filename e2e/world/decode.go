package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unsafe"

	"github.com/buger/jsonparser"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/history"
)

// cache maps the texts of parts of API objects to their decoded values, so that each is decoded once: most of an object
// stays the same from one version to the next. The values are shared and must not be changed. Versions of an object
// follow one another closely, so the cache is simply emptied when it is full.
type cache[T any] struct {
	known map[string]*T
	from  *json.Decoder // Kept, since making one is not cheap.
	text  bytes.Reader  // What it reads.
}

const mostCached = 4096

// completer is a type that derives fields from what was decoded into it.
type completer interface{ complete() }

// decode decodes text, a JSON value, unless it is known. Nobody may change text afterwards.
func (c *cache[T]) decode(text []byte) (*T, error) {
	key := unsafe.String(unsafe.SliceData(text), len(text))
	if known := c.known[key]; known != nil {
		return known, nil
	}
	into := new(T)
	if len(text) > 0 {
		if c.text.Reset(text); c.from == nil {
			c.from = json.NewDecoder(&c.text)
		}
		if err := c.from.Decode(into); err != nil {
			c.from = nil // It keeps its error.
			return nil, err
		}
	}
	if t, ok := any(into).(completer); ok {
		t.complete()
	}
	if c.known == nil || len(c.known) >= mostCached {
		c.known = map[string]*T{}
	}
	c.known[key] = into
	return into, nil
}

// parts holds the JSON texts of an object's members.
type parts struct{ meta, spec, status []byte }

// split returns the members of an API object; the others are ignored. It finds where they begin and end and does not
// look into them, as encoding/json would. It refuses a member that is a text: more than one value may be in it.
func split(raw []byte) (p parts, err error) {
	err = jsonparser.ObjectEach(raw, func(name, value []byte, is jsonparser.ValueType, _ int) error {
		switch string(name) {
		case "metadata":
			p.meta = value
		case "spec":
			p.spec = value
		case "status":
			p.status = value
		default:
			return nil
		}
		if is != jsonparser.Object && is != jsonparser.Null {
			return fmt.Errorf("its %s is no object: %s", name, is)
		}
		return nil
	})
	return p, err
}

// metaOf decodes an object's metadata. It empties the resourceVersion first, so that versions share what is decoded. It
// returns an error if the resourceVersion, name or uid differs from the record's.
func metaOf(
	text []byte, o *history.Object, known *cache[metav1.ObjectMeta], scratch *[]byte,
) (*metav1.ObjectMeta, error) {
	before, after, found := bytes.Cut(text, []byte(`"resourceVersion":"`+o.ResourceVersion+`"`))
	if found {
		*scratch = append(append(append((*scratch)[:0], before...), `"resourceVersion":""`...), after...)
		if text = *scratch; known.known[string(text)] == nil {
			text = bytes.Clone(text)
		}
	}
	m, err := known.decode(text)
	switch {
	case err != nil:
		return nil, err
	case m.ResourceVersion != "" && m.ResourceVersion != o.ResourceVersion: // With spaces, it was not cut out.
		return nil, fmt.Errorf("it has resourceVersion %s, the record %s", m.ResourceVersion, o.ResourceVersion)
	case m.Name != "" && m.Name != o.Name || m.UID != "" && string(m.UID) != o.UID:
		return nil, fmt.Errorf("it is %s (uid %s), the record says %s (uid %s)", m.Name, m.UID, o.Name, o.UID)
	}
	return m, nil
}
