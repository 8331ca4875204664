package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/history"
)

// decoder decodes the parts of API objects into their API types, each distinct text once: most of an object stays the
// same from one version to the next. Decoded values are shared and must not be changed.
type decoder struct {
	metas cache[metav1.ObjectMeta]
	text  []byte // Scratch.
}

// cache maps the hash of a text to its decoded value. Versions of an object follow one another closely, so it is
// simply emptied when it is full.
type cache[T any] struct {
	from  *source
	seed  maphash.Seed
	known map[uint64]decoded[T]
}

type decoded[T any] struct {
	text []byte
	into *T
}

const mostCached = 4096

func newCache[T any]() cache[T] {
	return cache[T]{from: &source{}, seed: maphash.MakeSeed(), known: map[uint64]decoded[T]{}}
}

// source is a reusable JSON decoder: making one costs as much as decoding a small object.
type source struct {
	text    bytes.Reader
	decoder *json.Decoder
	read    int64
}

func (s *source) decode(text []byte, into any) error {
	if s.decoder == nil {
		s.decoder, s.read = json.NewDecoder(&s.text), 0
	}
	s.text.Reset(text)
	err := s.decoder.Decode(into)
	if s.read += int64(len(text)); err != nil || s.decoder.InputOffset() != s.read {
		s.decoder = nil // A decoder keeps its error and any bytes after the value.
	}
	return err
}

// arena allocates values in batches.
type arena[T any] struct{ free []T }

// next returns a pointer to a zero value.
func (a *arena[T]) next() *T {
	if len(a.free) == 0 {
		a.free = make([]T, 256)
	}
	t := &a.free[0]
	a.free = a.free[1:]
	return t
}

// completer is a type that derives fields from what was decoded into it.
type completer interface{ complete() }

// decode decodes text and keeps it as the cache's key. The caller must not change it, unless scratch is set: then the
// cache keeps a copy.
func (c cache[T]) decode(text []byte, scratch bool) (*T, error) {
	hash := maphash.Bytes(c.seed, text)
	if d, ok := c.known[hash]; ok && bytes.Equal(d.text, text) {
		return d.into, nil
	}
	into := new(T)
	if len(text) > 0 {
		if err := c.from.decode(text, into); err != nil {
			return nil, err
		}
	}
	if t, ok := any(into).(completer); ok {
		t.complete()
	}
	if len(c.known) >= mostCached {
		clear(c.known)
	}
	if scratch {
		text = slices.Clone(text)
	}
	c.known[hash] = decoded[T]{text, into}
	return into, nil
}

// parts holds the JSON texts of an object's members.
type parts struct{ meta, spec, status []byte }

// split returns the members of an API object; the others are ignored.
func split(raw []byte) (parts, error) {
	var p parts
	sound := members(raw, func(name, value []byte) {
		switch string(name) {
		case "metadata":
			p.meta = value
		case "spec":
			p.spec = value
		case "status":
			p.status = value
		}
	})
	if !sound {
		return p, fmt.Errorf("no JSON object: %.40q", raw)
	}
	return p, nil
}

// members calls each with the name and the value of each member of a JSON object, and reports whether text is one. It
// only finds where values end, since encoding/json takes ten times as long to skip one.
func members(text []byte, each func(name, value []byte)) bool {
	text = bytes.TrimSpace(text)
	if len(text) < 2 || text[0] != '{' || text[len(text)-1] != '}' {
		return false
	}
	for rest := bytes.TrimSpace(text[1 : len(text)-1]); len(rest) > 0; {
		n := valueEnd(rest)
		if rest[0] != '"' || n < 2 {
			return false
		}
		name := rest[1 : n-1]
		rest = bytes.TrimSpace(rest[n:])
		if len(rest) == 0 || rest[0] != ':' {
			return false
		}
		rest = bytes.TrimSpace(rest[1:])
		n = valueEnd(rest)
		if n < 1 {
			return false
		}
		each(name, rest[:n])
		if rest = bytes.TrimSpace(rest[n:]); len(rest) > 0 {
			if rest[0] != ',' {
				return false
			}
			rest = bytes.TrimSpace(rest[1:])
		}
	}
	return true
}

// valueEnd returns the length of the JSON value that text starts with, -1 if the value has no end.
func valueEnd(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; ; i++ {
				n := bytes.IndexByte(text[i:], '"')
				if n < 0 {
					return -1
				}
				i += n
				if !escaped(text[:i]) {
					break
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + 1 + depth // An unmatched bracket (depth -1) is not part of the value.
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	if depth > 0 {
		return -1
	}
	return len(text)
}

// escaped reports whether the character after text, which is within a string, is escaped.
func escaped(text []byte) bool {
	return (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1
}

// meta decodes an object's metadata without its resourceVersion. It returns an error if the resourceVersion, name or
// uid differs from the record's.
func (d *decoder) meta(text []byte, o *history.Object) (*metav1.ObjectMeta, error) {
	version := []byte(nil)
	if len(text) > 0 && !members(text, func(name, value []byte) {
		if string(name) == "resourceVersion" {
			version = value
		}
	}) {
		return nil, fmt.Errorf("metadata is no JSON object: %.40q", text)
	}
	if version != nil {
		if string(bytes.Trim(version, `"`)) != o.ResourceVersion {
			return nil, fmt.Errorf("it has resourceVersion %s, the record %s", version, o.ResourceVersion)
		}
		at := cap(text) - cap(version)
		d.text = append(append(d.text[:0], text[:at]...), `""`...)
		d.text = append(d.text, text[at+len(version):]...)
		text = d.text
	}
	m, err := d.metas.decode(text, version != nil)
	if err != nil {
		return nil, err
	}
	if m.Name != "" && m.Name != o.Name || m.UID != "" && string(m.UID) != o.UID {
		return nil, fmt.Errorf("it is %s (uid %s), the record says %s (uid %s)", m.Name, m.UID, o.Name, o.UID)
	}
	return m, nil
}
