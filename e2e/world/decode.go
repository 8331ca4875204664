package world

import (
	"fmt"
	"unsafe"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/seatrial/seatrial/chaos/history"
)

// decoder decodes the parts of API objects into their API types, each distinct text once: from one version of an
// object to the next most of it stays the same, and what does is shared. Decoded values must not be changed.
type decoder struct {
	metas cache[metav1.ObjectMeta]
	text  []byte // Scratch.
}

// cache is what texts were decoded to.
type cache[T any] map[string]*T

// completer is a type that works something out from what was decoded into it.
type completer interface{ complete() }

func (c cache[T]) decode(text string) (*T, error) {
	if into, ok := c[text]; ok {
		return into, nil
	}
	into := new(T)
	if text != "" {
		if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), into); err != nil {
			return nil, err
		}
	}
	if t, ok := any(into).(completer); ok {
		t.complete()
	}
	c[text] = into
	return into, nil
}

// parts are the texts of an object's members, as far as they are looked at, and the whole without its resourceVersion.
type parts struct{ meta, spec, status, whole string }

// split takes an object apart. The texts are parts of raw, which nobody changes.
func split(raw []byte) (parts, error) {
	var p parts
	if len(raw) == 0 || raw[len(raw)-1] != '}' {
		return p, fmt.Errorf("no JSON object: %.40q", raw)
	}
	// Copying each object would double what judging a long history allocates.
	p.whole = unsafe.String(&raw[0], len(raw))
	object := gjson.Parse(p.whole)
	if !object.IsObject() {
		return p, fmt.Errorf("no JSON object: %.40q", raw)
	}
	object.ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "metadata":
			p.meta = value.Raw
		case "spec":
			p.spec = value.Raw
		case "status":
			p.status = value.Raw
		}
		return true
	})
	return p, nil
}

// meta decodes an object's metadata less its resourceVersion, and holds both against the record beside it.
func (d *decoder) meta(p parts, o *history.Object) (*metav1.ObjectMeta, error) {
	text := p.meta
	if version := gjson.Get(text, "resourceVersion"); version.Exists() {
		if version.Str != o.ResourceVersion {
			return nil, fmt.Errorf("it has resourceVersion %s, the record %s", version.Raw, o.ResourceVersion)
		}
		d.text = append(append(d.text[:0], text[:version.Index]...), `""`...)
		d.text = append(d.text, text[version.Index+len(version.Raw):]...)
		if m, ok := d.metas[string(d.text)]; ok {
			return m, same(m, o)
		}
		text = string(d.text)
	}
	m, err := d.metas.decode(text)
	if err != nil {
		return nil, err
	}
	return m, same(m, o)
}

// same holds an object's name and uid against the record beside it; one without them is taken as it is.
func same(m *metav1.ObjectMeta, o *history.Object) error {
	if m.Name != "" && m.Name != o.Name || m.UID != "" && string(m.UID) != o.UID {
		return fmt.Errorf("it is %s (uid %s), the record says %s (uid %s)", m.Name, m.UID, o.Name, o.UID)
	}
	return nil
}
