package world

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/history"
)

// cache maps the texts of parts of API objects to their decoded values, so that each is decoded once: most of an object
// stays the same from one version to the next. The values are shared and must not be changed. Versions of an object
// follow one another closely, so the cache is simply emptied when it is full.
type cache[T any] map[string]*T

const mostCached = 4096

// completer is a type that derives fields from what was decoded into it.
type completer interface{ complete() }

// decode decodes text, unless it is known.
func (c cache[T]) decode(text []byte) (*T, error) {
	if known := c[string(text)]; known != nil {
		return known, nil
	}
	into := new(T)
	if len(text) > 0 {
		if err := json.Unmarshal(text, into); err != nil {
			return nil, err
		}
	}
	if t, ok := any(into).(completer); ok {
		t.complete()
	}
	if len(c) >= mostCached {
		clear(c)
	}
	c[string(text)] = into
	return into, nil
}

// parts holds the JSON texts of an object's members.
type parts struct {
	Meta   json.RawMessage `json:"metadata"`
	Spec   json.RawMessage `json:"spec"`
	Status json.RawMessage `json:"status"`
}

// metaOf decodes an object's metadata without its resourceVersion. It returns an error if the resourceVersion, name or
// uid differs from the record's.
func metaOf(text []byte, o *history.Object, known cache[metav1.ObjectMeta]) (*metav1.ObjectMeta, error) {
	version := fmt.Appendf(nil, `"resourceVersion":%q`, o.ResourceVersion)
	m, err := known.decode(bytes.Replace(text, version, []byte(`"resourceVersion":""`), 1))
	switch {
	case err != nil:
		return nil, err
	case m.ResourceVersion != "" && m.ResourceVersion != o.ResourceVersion:
		return nil, fmt.Errorf("it has resourceVersion %s, the record %s", m.ResourceVersion, o.ResourceVersion)
	case m.Name != "" && m.Name != o.Name || m.UID != "" && string(m.UID) != o.UID:
		return nil, fmt.Errorf("it is %s (uid %s), the record says %s (uid %s)", m.Name, m.UID, o.Name, o.UID)
	}
	return m, nil
}
