// Program schema writes the JSON Schemas of the files that users write: plans, cases and workload files. They are made
// from the Go types that decode these files, their comments, and the registered faults, checks and workloads.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

const (
	module  = "github.com/seatrial/seatrial/"
	dialect = "https://json-schema.org/draft/2020-12/schema"
	// duration is what time.ParseDuration takes.
	duration = `^[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tools/schema DIR, in the root of the source")
		os.Exit(2)
	}
	if err := write(".", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

// write writes every schema; root is that of the source.
func write(root, dir string) error {
	all, err := schemas(root)
	if err != nil {
		return err
	}
	for name, s := range all {
		data, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			return fmt.Errorf("encode schema of %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// schemas returns the schemas by the name of the file.
func schemas(root string) (map[string]*jsonschema.Schema, error) {
	all := map[string]*jsonschema.Schema{}
	for name, of := range map[string]struct {
		title    string
		t        reflect.Type
		optional []string
	}{
		"plan":     {"A plan of Seatrial", reflect.TypeFor[plan.Plan](), []string{"n"}},
		"case":     {"A case of Seatrial", reflect.TypeFor[plan.CaseFile](), []string{"schema", "scenario", "n"}},
		"workload": {"A StatefulSet for Seatrial", reflect.TypeFor[plan.WorkloadFile](), nil},
	} {
		g := &generator{root: root, parts: trial.AllParts(), optional: append(mayBeZero(), of.optional...),
			defs: map[string]*jsonschema.Schema{}, comments: map[string]map[string]string{}}
		if err := g.define(of.t); err != nil {
			return nil, fmt.Errorf("make schema of %s: %w", name, err)
		}
		all[name] = &jsonschema.Schema{Schema: dialect, Title: of.title, Ref: ref(of.t).Ref, Defs: g.defs}
	}
	return all, nil
}

// mayBeZero are the fields that are always written and may be left out: zero is legal in some plan.
func mayBeZero() []string {
	return []string{
		"clients", "fileSystem", "interval", "minAround", "minOps", "ordinal", "quietRows", "seed", "volumeMiB",
	}
}

// generator makes one schema. Each struct is a definition.
type generator struct {
	root     string
	parts    trial.Parts
	optional []string
	defs     map[string]*jsonschema.Schema
	comments map[string]map[string]string // By package and "Type.Field".
}

func ref(t reflect.Type) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + t.Name()} }

// define adds the definition of a struct and of those within it.
func (g *generator) define(t reflect.Type) error {
	if g.defs[t.Name()] != nil {
		return nil
	}
	g.defs[t.Name()] = &jsonschema.Schema{} // A step has steps within it.
	s, err := g.object(t)
	if err != nil {
		return err
	}
	switch t {
	case reflect.TypeFor[plan.Fault]():
		if err := g.params(s); err != nil {
			return err
		}
	case reflect.TypeFor[plan.Step]():
		for _, do := range plan.Actions() {
			if field := do.Field(); field != "" {
				s.AllOf = append(s.AllOf, when("do", string(do), &jsonschema.Schema{Required: []string{field}}))
			}
		}
	}
	g.defs[t.Name()] = s
	return nil
}

// object returns the schema of a struct's fields.
func (g *generator) object(t reflect.Type) (*jsonschema.Schema, error) {
	types := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[plan.Duration]():   {Type: "string", Pattern: duration, Examples: []any{"1m30s"}},
		reflect.TypeFor[plan.Action]():     {Type: "string", Enum: values(plan.Actions())},
		reflect.TypeFor[json.RawMessage](): {Type: "object"},
	}
	var fields []reflect.StructField
	said := map[string]string{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" || name == "-" {
			continue
		}
		owner := t
		if len(f.Index) > 1 {
			owner = t.FieldByIndex(f.Index[:len(f.Index)-1]).Type
		}
		comment, err := g.comment(owner, f.Name)
		if err != nil {
			return nil, err
		}
		said[name] = comment
		for inner := f.Type; ; inner = inner.Elem() {
			if inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
				continue
			}
			if inner.Kind() == reflect.Struct && types[inner] == nil {
				if err := g.define(inner); err != nil {
					return nil, err
				}
				types[inner] = ref(inner)
			}
			break
		}
		fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag})
	}
	s, err := jsonschema.ForType(reflect.StructOf(fields), &jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, err
	}
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return slices.Contains(g.optional, name) })
	for name, field := range s.Properties {
		notNull(field)
		field.Description = said[name]
		if known := g.known(t.Name() + "." + name); known != nil {
			field.Enum = known
		}
	}
	return s, nil
}

// notNull takes null away: only lists and maps can be that, and nobody needs to write it.
func notNull(s *jsonschema.Schema) {
	for _, one := range []*jsonschema.Schema{s, s.Items, s.AdditionalProperties} {
		if one == nil {
			continue
		}
		one.Types = slices.DeleteFunc(one.Types, func(t string) bool { return t == "null" })
		if len(one.Types) == 1 {
			one.Type, one.Types = one.Types[0], nil
		} else if len(one.Types) == 0 {
			one.Types = nil
		}
	}
	if s.Items != nil {
		notNull(s.Items)
	}
}

// known returns the values that a field can have, nil if that is open.
func (g *generator) known(field string) []any {
	var names []string
	switch field {
	case "Await.for":
		return values(plan.Awaits())
	case "Match.kind":
		return values(plan.Kinds())
	case "Match.op":
		return values(plan.Operators())
	case "Fault.name":
		for _, f := range g.parts.Faults {
			names = append(names, f.Name)
		}
	case "Workload.name":
		for _, w := range g.parts.Workloads {
			names = append(names, w.Name)
		}
	case "Sign.check":
		for _, c := range g.parts.Checks {
			names = append(names, c.Name)
		}
	default:
		return nil
	}
	return values(names)
}

func values[T ~string](all []T) []any {
	out := make([]any, len(all))
	for i, v := range all {
		out[i] = string(v)
	}
	return out
}

// when applies a schema to objects whose field has a value.
func when(field, value string, then *jsonschema.Schema) *jsonschema.Schema {
	is := &jsonschema.Schema{Const: jsonschema.Ptr[any](value)}
	return &jsonschema.Schema{
		If:   &jsonschema.Schema{Properties: map[string]*jsonschema.Schema{field: is}, Required: []string{field}},
		Then: then,
	}
}

// params adds the parameters of each fault, which stand beside the fields of all faults.
func (g *generator) params(s *jsonschema.Schema) error {
	s.UnevaluatedProperties, s.AdditionalProperties = s.AdditionalProperties, nil
	for _, f := range g.parts.Faults {
		if f.Type == nil {
			continue
		}
		own, err := g.object(f.Type)
		if err != nil {
			return fmt.Errorf("fault %s: %w", f.Name, err)
		}
		own.AdditionalProperties, own.Required = nil, nil // Its definition says which go together.
		s.AllOf = append(s.AllOf, when("name", f.Name, own))
	}
	return nil
}

// comment returns the comment of a struct's field.
func (g *generator) comment(t reflect.Type, field string) (string, error) {
	if g.comments[t.PkgPath()] == nil {
		found := map[string]string{}
		dir := filepath.Join(g.root, strings.TrimPrefix(t.PkgPath(), module))
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			return "", fmt.Errorf("read comments of %s: %d files: %w", t.PkgPath(), len(files), err)
		}
		for _, name := range files {
			mode := parser.ParseComments | parser.SkipObjectResolution
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, mode)
			if err != nil {
				return "", fmt.Errorf("read comments: %w", err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					comments(spec, found)
				}
				return true
			})
		}
		g.comments[t.PkgPath()] = found
	}
	return g.comments[t.PkgPath()][t.Name()+"."+field], nil
}

func comments(spec *ast.TypeSpec, found map[string]string) {
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range fields.Fields.List {
		text := f.Doc.Text() + " " + f.Comment.Text()
		for _, name := range f.Names {
			found[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(text), " ")
		}
	}
}
