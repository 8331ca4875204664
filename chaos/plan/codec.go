package plan

import (
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

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// The limits of what Decode reads. A plan of MaxSteps steps is well below 1 MiB, and one with steps that are within
// MaxDepth others is nested far less.
const (
	maxBytes   = 4 << 20
	maxNesting = 64
)

// Encode writes p as indented JSON with a newline at the end. The same plan gives the same bytes.
func (p Plan) Encode(w io.Writer) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode plan: %w", err)
	}
	if _, err := w.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

// Decode reads one plan in JSON or YAML, strictly: an unknown field or one that is there twice, a value of another
// type, anything after the plan, and a newer schema are errors; what is wrong with fields is FieldErrors. Validate
// judges the plan.
func Decode(r io.Reader) (Plan, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return Plan{}, fmt.Errorf("read plan: %w", err)
	}
	if len(data) > maxBytes {
		return Plan{}, fmt.Errorf("decode plan: it is longer than %d bytes", maxBytes)
	}
	var p Plan
	if err := decode(data, &p); err != nil {
		return Plan{}, fmt.Errorf("decode plan: %w", err)
	}
	return p, nil
}

func decode(data []byte, p *Plan) error {
	var errs FieldErrors
	if text := bytes.TrimSpace(data); len(text) > 0 && text[0] != '{' {
		converted, err := yaml.YAMLToJSONStrict(data)
		if err != nil {
			errs.Add("plan", "write YAML or JSON", "cannot be read: %s", oneLine(err.Error()))
			return errs
		}
		data = converted
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		errs.Add("plan", "write YAML or JSON", "cannot be read: %s%s", oneLine(err.Error()), position(data, err))
		return errs
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		errs.Add("plan", "remove it", "there is more after it")
		return errs
	}
	if fields, ok := tree.(map[string]any); ok {
		schema, _ := fields["schema"].(json.Number)
		if n, err := schema.Int64(); err == nil && n > SchemaVersion {
			return fmt.Errorf("schema %d, want at most %d: %w", n, SchemaVersion, ErrSchema)
		}
	}
	twice, _ := kjson.UnmarshalStrict(data, new(any)) // Other errors are those of shape.
	for _, err := range twice {
		if f, ok := errors.AsType[kjson.FieldError](err); ok {
			errs.Add(oneLine(f.FieldPath()), "leave one of them out", "is there twice")
		}
	}
	errs.shape("", reflect.TypeFor[Plan](), tree, 0)
	if len(errs) > 0 {
		return errs
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, p)
}

// position says where in a text a JSON decoder stopped.
func position(data []byte, err error) string {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok || syntax.Offset > int64(len(data)) {
		return ""
	}
	before := data[:syntax.Offset]
	return fmt.Sprintf(" (line %d, column %d)", 1+bytes.Count(before, []byte("\n")),
		len(before)-1-bytes.LastIndexByte(before, '\n'))
}

// shape holds decoded JSON against the type that it is decoded into, and adds an error for every field that the type
// does not have or that is of another type. The parameters of a fault, which its definition decodes, are taken as they
// are.
func (l *FieldErrors) shape(at string, t reflect.Type, value any, deep int) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	raw := t == reflect.TypeFor[json.RawMessage]()
	where := at
	if where == "" {
		where = "plan"
	}
	if deep > maxNesting {
		l.Add(where, "leave it out", "is nested more than %d deep", maxNesting)
		return
	}
	switch v := value.(type) {
	case nil:
		if raw || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			return
		}
	case map[string]any:
		if raw || t.Kind() == reflect.Struct || t.Kind() == reflect.Map {
			l.fields(at, t, v, deep)
			return
		}
	case []any:
		if raw || t.Kind() == reflect.Slice {
			elem := t
			if !raw {
				elem = t.Elem()
			}
			for i, inner := range v {
				l.shape(fmt.Sprintf("%s[%d]", at, i), elem, inner, deep+1)
			}
			return
		}
	default:
		if s, ok := v.(string); ok && strings.ContainsRune(s, utf8.RuneError) {
			l.Add(where, "use UTF-8", "is not UTF-8")
			return
		}
		into := reflect.New(t).Interface()
		if raw {
			into = new(any)
		}
		data, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err == nil {
			return
		}
	}
	l.Add(where, "use "+wanted(t), "is %s", found(value))
}

// fields holds the fields of an object against a struct or a map.
func (l *FieldErrors) fields(at string, t reflect.Type, object map[string]any, deep int) {
	raw := reflect.TypeFor[json.RawMessage]()
	var known map[string]reflect.Type
	if t.Kind() == reflect.Struct {
		known = map[string]reflect.Type{}
		for _, f := range jsonFields(t) {
			known[f.name] = f.Type
		}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		inner, ok := known[name]
		switch {
		case ok:
		case t.Kind() == reflect.Map:
			inner = t.Elem()
		case t == raw || t == reflect.TypeFor[Fault]():
			inner = raw
		default:
			l.unknown(at, name, "there is no such field", slices.Sorted(maps.Keys(known)))
			inner = raw
		}
		l.shape(fieldOf(at, name), inner, object[name], deep+1)
	}
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

// fieldOf names a field of an object. A name that is no plain word is quoted.
func fieldOf(at, name string) string {
	if at != "" {
		at += "."
	}
	const plain = "abcdefghijklmnopqrstuvwxyz0123456789-"
	if name == "" || len(name) > 63 || strings.Trim(strings.ToLower(name), plain) != "" {
		name = strconv.Quote(short(name))
	}
	return at + name
}

// wanted says what a field of a type can be.
func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[Duration]():
		return `text like "1m30s"`
	case t == reflect.TypeFor[json.RawMessage]():
		return "JSON"
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

// found says what a value is.
func found(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return "the text " + strconv.Quote(short(v))
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case bool:
		return strconv.FormatBool(v)
	}
	return "the number " + short(fmt.Sprint(value))
}
