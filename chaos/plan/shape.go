package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxNesting bounds how deep values are within each other. Steps that are within MaxDepth others stay far below it.
const maxNesting = 64

// shape holds text against what a type looks like in JSON, and returns every field that is not known, is there twice,
// or is of another type than its own. Fields of a fault that are not common to all are left to its definition. It is
// stricter than encoding/json, which takes the last of two fields and any case of their letters, and can say of no
// duration where it is.
func shape(data []byte, at string, t reflect.Type) FieldErrors {
	s := &shaper{dec: json.NewDecoder(bytes.NewReader(data)), data: data}
	s.dec.UseNumber()
	if s.value(at, t, 0) {
		if _, err := s.dec.Token(); !errors.Is(err, io.EOF) {
			s.errs.add(at, "remove it", "there is more after it")
		}
	}
	return s.errs
}

// shaper walks a text. Its methods return false when it cannot be read on.
type shaper struct {
	dec  *json.Decoder
	data []byte
	errs FieldErrors
}

// next reads the next token of a field.
func (s *shaper) next(at string) (json.Token, bool) {
	before := s.dec.InputOffset()
	token, err := s.dec.Token()
	if err != nil {
		what := err.Error()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			what = "it ends here"
		}
		s.errs.add(at, "write JSON", "cannot be read: %s", oneLine(what))
		return nil, false
	}
	if !utf8.Valid(s.data[before:s.dec.InputOffset()]) {
		s.errs.add(at, "use UTF-8", "is not UTF-8")
	}
	return token, true
}

// value reads a value that should be of a type.
func (s *shaper) value(at string, t reflect.Type, deep int) bool {
	if deep > maxNesting {
		s.errs.add(at, "leave it out", "is within %d others", deep)
		return false
	}
	token, ok := s.next(at)
	if !ok {
		return false
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	raw := t == reflect.TypeFor[json.RawMessage]()
	delim, nested := token.(json.Delim)
	switch {
	case raw && !nested:
		return true
	case token == nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Map):
		return true
	case nested && delim == '[' && (raw || t.Kind() == reflect.Slice):
		return s.list(at, t, deep)
	case nested && delim == '{' && (raw || t.Kind() == reflect.Struct || t.Kind() == reflect.Map):
		return s.fields(at, t, deep)
	case nested:
		s.errs.add(at, "use "+wanted(t), "is %s", found(token))
		return s.skip(at, deep)
	}
	s.scalar(at, t, token)
	return true
}

// skip reads the rest of a list or an object that should not be there.
func (s *shaper) skip(at string, deep int) bool {
	for open := 1; open > 0; {
		token, ok := s.next(at)
		if !ok {
			return false
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			open++
		case json.Delim('}'), json.Delim(']'):
			open--
		}
		if deep+open > maxNesting {
			s.errs.add(at, "leave it out", "is too deep within others")
			return false
		}
	}
	return true
}

func (s *shaper) list(at string, t reflect.Type, deep int) bool {
	elem := t
	if t != reflect.TypeFor[json.RawMessage]() {
		elem = t.Elem()
	}
	for i := 0; s.dec.More(); i++ {
		if !s.value(fmt.Sprintf("%s[%d]", at, i), elem, deep+1) {
			return false
		}
	}
	_, ok := s.next(at)
	return ok
}

// fields reads the fields of an object.
func (s *shaper) fields(at string, t reflect.Type, deep int) bool {
	known := fieldTypes(t)
	seen := map[string]bool{}
	for s.dec.More() {
		token, ok := s.next(at)
		if !ok {
			return false
		}
		name, _ := token.(string)
		field := fieldOf(at, name)
		if seen[name] {
			s.errs.add(field, "leave one of them out", "is there twice")
		}
		seen[name] = true
		inner, ok := known[name]
		if known == nil { // Anything goes.
			inner, ok = t, true
			if t.Kind() == reflect.Map {
				inner = t.Elem()
			}
		}
		if !ok && t == reflect.TypeFor[Fault]() {
			inner, ok = reflect.TypeFor[json.RawMessage](), true
		}
		if !ok {
			names := make([]string, 0, len(known))
			for n := range known {
				names = append(names, n)
			}
			fix := "leave it out"
			if near, ok := Nearest(name, names); ok {
				fix = fmt.Sprintf("did you mean %q?", near)
			}
			s.errs.add(field, fix, "there is no such field")
			inner = reflect.TypeFor[json.RawMessage]()
		}
		if !s.value(field, inner, deep+1) {
			return false
		}
	}
	_, ok := s.next(at)
	return ok
}

// fieldTypes returns the fields that a struct has in JSON, nil of what is none.
func fieldTypes(t reflect.Type) map[string]reflect.Type {
	if t.Kind() != reflect.Struct {
		return nil
	}
	types := map[string]reflect.Type{}
	for _, f := range jsonFields(t) {
		types[f.name] = f.Type
	}
	return types
}

type jsonField struct {
	name string
	reflect.StructField
}

// jsonFields returns the fields of a struct in JSON, those of embedded structs among them.
func jsonFields(t reflect.Type) []jsonField {
	var fields []jsonField
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "-" && !f.Anonymous {
			fields = append(fields, jsonField{name, f})
		}
	}
	return fields
}

// fieldOf names a field of an object. A name that somebody made up is quoted.
func fieldOf(at, name string) string {
	if at == "plan" || at == "" {
		at = ""
	} else {
		at += "."
	}
	const plain = "abcdefghijklmnopqrstuvwxyz0123456789-"
	if name == "" || len(name) > 63 || strings.Trim(strings.ToLower(name), plain) != "" {
		name = strconv.Quote(short(name))
	}
	return at + name
}

// scalar holds text, a number, true, false or null against a type.
func (s *shaper) scalar(at string, t reflect.Type, token json.Token) {
	switch v := token.(type) {
	case string:
		if t == reflect.TypeFor[Duration]() {
			if _, err := time.ParseDuration(v); err != nil {
				s.errs.add(at, `use text like "1m30s"`, "%q is no duration", short(v))
			}
			return
		}
		if t.Kind() == reflect.String {
			return
		}
	case bool:
		if t.Kind() == reflect.Bool {
			return
		}
	case json.Number:
		if s.number(at, t, v.String()) {
			return
		}
	}
	s.errs.add(at, "use "+wanted(t), "is %s", found(token))
}

// number holds a number against a type, and reports whether the type is that of a number.
func (s *shaper) number(at string, t reflect.Type, n string) bool {
	var err error
	switch {
	case t == reflect.TypeFor[Duration]():
		return false
	case t.Kind() == reflect.Uint64:
		_, err = strconv.ParseUint(n, 10, 64)
	case t.Kind() == reflect.Int:
		_, err = strconv.ParseInt(n, 10, strconv.IntSize)
	case t.Kind() == reflect.Float64:
		_, err = strconv.ParseFloat(n, 64)
	default:
		return false
	}
	if err != nil {
		s.errs.add(at, "use "+wanted(t), "%s is out of range", short(n))
	}
	return true
}

// wanted says what a field of a type can be.
func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[Duration]():
		return `text like "1m30s"`
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Uint64:
		return "a whole number from 0 on"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Slice:
		return "a list, in brackets"
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		return "fields, in braces"
	}
	return "a whole number"
}

// found says what a token is.
func found(token json.Token) string {
	switch v := token.(type) {
	case nil:
		return "null"
	case string:
		return "the text " + strconv.Quote(short(v))
	case json.Number:
		return "the number " + short(v.String())
	case bool:
		return strconv.FormatBool(v)
	}
	if token == json.Delim('[') {
		return "a list"
	}
	return "an object"
}

// oneLine makes what cannot be printed visible.
func oneLine(s string) string {
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
