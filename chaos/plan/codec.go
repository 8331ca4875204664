package plan

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxBytes bounds what is read. A plan of MaxSteps steps is well below 1 MiB.
const maxBytes = 4 << 20

// Decode reads one plan in JSON or YAML, strictly, see Unmarshal; a newer schema is an error. Validate judges the plan.
func Decode(data []byte) (Plan, error) {
	var head struct {
		Schema int64 `json:"schema"`
	}
	if yaml.Unmarshal(data, &head) == nil && head.Schema > SchemaVersion {
		return Plan{}, fmt.Errorf("decode plan: schema %d, want at most %d: %w", head.Schema, SchemaVersion, ErrSchema)
	}
	var p Plan
	if errs := decode(data, &p, "plan"); len(errs) > 0 {
		return Plan{}, fmt.Errorf("decode plan: %w", errs)
	}
	return p, nil
}

// decode is Unmarshal for a file that a user writes. One that is a file of another kind is refused as a whole.
func decode(data []byte, into any, what string) FieldErrors {
	errs := Unmarshal(data, into).of(what)
	var fields map[string]any
	if len(errs) == 0 || len(data) > maxBytes || yaml.Unmarshal(data, &fields) != nil {
		return errs
	}
	instead := errs
	for _, kind := range []struct{ what, only, takes string }{
		{"plan", "steps", "run --plan"}, {"case", "finding", "reproduce --case"},
		{"workload", "statefulSet", "run --workload"},
	} {
		switch {
		case fields[kind.only] == nil:
		case kind.what == what:
			return errs
		default:
			instead = nil
			instead.Add(what, fmt.Sprintf("give it to `seatrial %s`", kind.takes), "this is a %s file", kind.what)
		}
	}
	return instead
}

// Unmarshal reads a value in JSON or YAML, strictly: an unknown field or one that is set twice, a value of another type
// and anything after the value are errors. The field of an error is relative to the value, and empty for all of it.
func Unmarshal(data []byte, into any) (errs FieldErrors) {
	if len(data) > maxBytes {
		errs.Add("", "shorten it", "is longer than %d bytes", maxBytes)
		return errs
	}
	docs := Documents(data, 2) // One is legal.
	if len(docs) == 0 {
		errs.Add("", "write YAML or JSON", "is empty")
		return errs
	}
	if bytes.TrimSpace(data)[0] != '{' {
		if len(docs) > 1 {
			errs.Add("", "leave one document of YAML", "there is more after ---")
			return errs
		}
		converted, err := yaml.YAMLToJSONStrict(data)
		if err != nil {
			why := strings.Replace(err.Error(), "unmarshal errors:\n  ", "", 1)
			errs.Add("", "write YAML or JSON", "cannot be read: %s", why)
			return errs
		}
		data = converted
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		errs.Add("", "write YAML or JSON", "cannot be read: %v%s", err, position(data, err))
		return errs
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		errs.Add("", "remove it", "there is more after it")
		return errs
	}
	twice, _ := kjson.UnmarshalStrict(data, new(any)) // Other errors are those of shape.
	for _, err := range twice {
		if f, ok := errors.AsType[kjson.FieldError](err); ok {
			errs.Add(f.FieldPath(), "leave one of them out", "is there twice")
		}
	}
	errs.shape("", reflect.TypeOf(into).Elem(), tree)
	if len(errs) > 0 {
		return errs
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		errs.Add("", "correct the value", "cannot be read: %v", err)
	}
	return errs
}

// Documents splits YAML at its separators, into so many documents at most, and drops those that are empty, comments
// or directives.
func Documents(data []byte, most int) [][]byte {
	var docs [][]byte
	reader := kyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for len(docs) < most {
		doc, err := reader.Read()
		switch {
		case errors.Is(err, io.EOF):
			return docs
		case err != nil: // It takes no separator with a document behind it on its line; the parser does.
			return append(docs, data)
		}
		for line := range bytes.Lines(doc) {
			line = bytes.TrimSpace(line)
			if len(line) > 0 && line[0] != '#' && line[0] != '%' && !bytes.Equal(line, []byte("---")) {
				docs = append(docs, doc)
				break
			}
		}
	}
	return docs
}

// position says where in a text a JSON decoder stopped.
func position(data []byte, err error) string {
	ok, offset := kjson.SyntaxErrorOffset(err)
	if !ok || offset > int64(len(data)) {
		return ""
	}
	before := data[:offset]
	return fmt.Sprintf(" (line %d, column %d)", 1+bytes.Count(before, []byte("\n")),
		len(before)-1-bytes.LastIndexByte(before, '\n'))
}

// shape compares decoded JSON with the type that it is decoded into, and adds an error for each field that the type
// does not have or that has another type. The decoder itself names only the first value of another type, without the
// indexes of lists. A fault takes any field: its definition decodes its parameters.
func (l *FieldErrors) shape(at string, t reflect.Type, value any) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	fault, anything := t == reflect.TypeFor[Fault](), t.Kind() == reflect.Interface
	opaque := reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) && !fault
	list, object := t.Kind() == reflect.Slice || anything, t.Kind() == reflect.Map || anything
	elem := t
	if !opaque && !anything && (list || object) {
		elem = t.Elem()
	}
	switch v := value.(type) {
	case nil:
		if !opaque && !list && !object {
			l.Add(at, "use "+wanted(t), "is null")
		}
		return
	case string:
		if strings.ContainsRune(v, utf8.RuneError) {
			l.Add(at, "use UTF-8", "is not UTF-8")
			return
		}
	case map[string]any:
		if opaque || t.Kind() != reflect.Struct && !object {
			break
		}
		known := jsonFields(t)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			field, ok := known[name]
			switch {
			case ok:
				l.shape(fieldOf(at, name), field.Type, v[name])
			case object:
				l.shape(fieldOf(at, name), elem, v[name])
			case fault:
				l.shape(fieldOf(at, name), reflect.TypeFor[any](), v[name])
			case name == "false" && known["n"].Name != "":
				l.Add(fieldOf(at, "n"), "put it in quotes, or leave out all of them", "without quotes is read as false")
			default:
				l.unknown(at, name, "there is no such field", slices.Sorted(maps.Keys(known)))
			}
		}
		return
	case []any:
		if opaque || !list {
			break
		}
		for i, inner := range v {
			l.shape(fmt.Sprintf("%s[%d]", at, i), elem, inner)
		}
		return
	}
	data, err := json.Marshal(value)
	if err == nil && json.Unmarshal(data, reflect.New(t).Interface()) != nil {
		l.Add(at, "use "+wanted(t), "is %s", Printable(string(data), maxShort))
	}
}

// fieldOf names a field of an object. A name that is no plain word is quoted.
func fieldOf(at, name string) string {
	const plain = "abcdefghijklmnopqrstuvwxyz0123456789-"
	if name == "" || len(name) > maxShort || strings.Trim(strings.ToLower(name), plain) != "" {
		name = strconv.Quote(name[:min(len(name), maxShort)])
	}
	return Join(at, name)
}

// jsonFields returns the fields of a struct by their names in JSON, those of inlined structs among them; none of
// another type.
func jsonFields(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return fields
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Anonymous:
			for name, inner := range jsonFields(f.Type) {
				inner.Index = slices.Concat(f.Index, inner.Index)
				fields[name] = inner
			}
		case name != "":
			fields[name] = f
		}
	}
	return fields
}

// SetFields returns the fields of a struct that are set, by their names in JSON.
func SetFields(object any) map[string]any {
	set := map[string]any{}
	v := reflect.Indirect(reflect.ValueOf(object))
	for name, f := range jsonFields(v.Type()) {
		if value, err := v.FieldByIndexErr(f.Index); err == nil && !value.IsZero() {
			set[name] = value.Interface()
		}
	}
	return set
}

// wanted says what a field of a type can be.
func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[Duration]() {
		return `text like "1m30s"`
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Uint64:
		return "a whole number from 0 on"
	case reflect.Float64, reflect.Interface:
		return "a number"
	case reflect.Slice:
		return "a list, in brackets"
	case reflect.Struct, reflect.Map:
		return "fields, in braces"
	}
	return "a whole number"
}
