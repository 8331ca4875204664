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

// decoder decodes the parts of API objects into their API types, each distinct text once: from one version of an
// object to the next most of it stays the same, and what does is shared. Decoded values must not be changed.
type decoder struct {
	metas cache[metav1.ObjectMeta]
	text  []byte // Scratch.
}

// cache holds what texts were decoded to, by their hashes. Versions of an object follow one another closely, so it need
// not remember for long.
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

// source is a decoder that is used again and again: to make one costs as much as to decode a small object.
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
		s.decoder = nil // It keeps an error, and what came after the value.
	}
	return err
}

// arena makes room for values, many at a time.
type arena[T any] struct{ free []T }

// next returns room for one value.
func (a *arena[T]) next() *T {
	if len(a.free) == 0 {
		a.free = make([]T, 256)
	}
	t := &a.free[0]
	a.free = a.free[1:]
	return t
}

// completer is a type that works something out from what was decoded into it.
type completer interface{ complete() }

// decode decodes a text that nobody will change, or, of a scratch text, keeps a copy.
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

// parts are the texts of an object's members, as far as they are looked at.
type parts struct{ meta, spec, status []byte }

// split takes an object apart.
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

// members calls each with the name and the value of each member of a JSON object, and reports that text is one. It
// finds where values end and does not look into them: encoding/json takes ten times as long to skip one.
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

// valueEnd returns where the JSON value at the begin of text ends, -1 where it does not.
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
				return i + 1 + depth // What closes nothing is no part of the value.
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

// escaped reports that what comes after text, which is within a string, is escaped.
func escaped(text []byte) bool {
	return (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1
}

// meta decodes an object's metadata less its resourceVersion, and holds both against the record beside it.
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
