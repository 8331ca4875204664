package chaosmesh

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/plan"
)

// The limits of what Parse reads. They keep a file of hostile size from filling the memory.
const (
	maxBytes     = 1 << 20
	maxDocuments = 64
)

// Manifest is one object of Chaos Mesh, decoded strictly, with their defaults filled in.
type Manifest struct {
	At     string // Its path in the source, for example "manifests[1]".
	Object client.Object
	// given is the object as it was written, with nothing filled in.
	given client.Object
}

// Name is the kind and the name, for a sentence.
func (m Manifest) Name() string { return m.kind() + "/" + m.Object.GetName() }

func (m Manifest) kind() string { return m.Object.GetObjectKind().GroupVersionKind().Kind }

// Is reports whether data looks like a manifest of Chaos Mesh, and not like a plan.
func Is(data []byte) bool {
	var plan struct {
		APIVersion string `json:"apiVersion"`
		Schema     int    `json:"schema"`
	}
	if json.Unmarshal(data, &plan) == nil {
		return plan.APIVersion != "" && plan.Schema == 0
	}
	for _, doc := range documents(data) {
		var head struct {
			APIVersion string `json:"apiVersion"`
		}
		if yaml.Unmarshal(doc, &head) == nil && head.APIVersion != "" {
			return true
		}
	}
	return false
}

// documents splits YAML at its separators, and leaves out what is empty or all comments.
func documents(data []byte) [][]byte {
	var docs [][]byte
	reader := kyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for len(docs) <= maxDocuments {
		doc, err := reader.Read()
		if err != nil {
			return docs // The reader fails at the end alone: it only looks at lines.
		}
		for line := range bytes.Lines(doc) {
			line = bytes.TrimSpace(line)
			if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
				docs = append(docs, doc)
				break
			}
		}
	}
	return docs
}

// Parse decodes manifests in YAML or JSON, one document each, and holds each against the rules of Chaos Mesh and those
// that they leave out. It returns plan.FieldErrors with all that is wrong, or nil.
func Parse(data []byte) ([]Manifest, error) {
	if len(data) > maxBytes {
		return nil, oneError("manifests", "split the file", "they are longer than %d bytes", maxBytes)
	}
	docs := documents(data)
	switch {
	case len(docs) == 0:
		return nil, oneError("manifests", "add objects of chaos-mesh.org/v1alpha1", "there is none")
	case len(docs) > maxDocuments:
		return nil, oneError("manifests", "split the file", "there are more than %d", maxDocuments)
	}
	var all []Manifest
	var errs plan.FieldErrors
	for i, doc := range docs {
		m, err := parse(fmt.Sprintf("manifests[%d]", i), doc)
		if err != nil {
			errs = join(errs, err)
			continue
		}
		all = append(all, m)
	}
	return all, errs.Err()
}

// parse decodes one document and holds it against the rules.
func parse(at string, doc []byte) (Manifest, error) {
	given, err := decode(at, doc)
	if err != nil {
		return Manifest{}, err
	}
	m := Manifest{At: at, given: given, Object: given.DeepCopyObject().(client.Object)}
	r := rules{at: at}
	r.metadata(m)
	if len(r.errs) == 0 {
		r.check(m)
	}
	return m, r.errs.Err()
}

// scheme knows the kinds of Chaos Mesh and nothing else.
func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, v1alpha1.AddToScheme(s)
}

// decode decodes one document strictly: an unknown field, a key that is there twice, and a value of another type are
// errors with the path of the field.
func decode(at string, doc []byte) (obj client.Object, err error) {
	defer func() {
		if p := recover(); p != nil { // A decoder that panics has met something that is no manifest.
			err = oneError(at, "correct the YAML", "it cannot be decoded: %s", printable(fmt.Sprint(p)))
		}
	}()
	s, err := scheme()
	if err != nil {
		return nil, fmt.Errorf("register the kinds of Chaos Mesh: %w", err)
	}
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := yaml.Unmarshal(doc, &head); err != nil {
		return nil, oneError(at, "correct the YAML", "it cannot be decoded: %s", printable(err.Error()))
	}
	group := v1alpha1.SchemeGroupVersion.String()
	switch {
	case head.APIVersion == "":
		return nil, oneError(at+".apiVersion", "use "+group, "is missing")
	case head.APIVersion != group:
		return nil, oneError(at+".apiVersion", "use "+group, "%q is not of Chaos Mesh", head.APIVersion)
	case !slices.Contains(kinds(), head.Kind):
		return nil, oneError(at+".kind", nearest(head.Kind, kinds()), "no kind %q of Chaos Mesh can be used", head.Kind)
	}
	decoder := kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, s, s, kjson.SerializerOptions{
		Yaml: true, Strict: true,
	})
	got, _, err := decoder.Decode(doc, nil, nil)
	if err != nil {
		return nil, decodeErrors(at, err)
	}
	obj, ok := got.(client.Object)
	if !ok {
		return nil, oneError(at+".kind", "use one of "+strings.Join(kinds(), ", "), "%q is no object", head.Kind)
	}
	return obj, nil
}

// unknownField takes the path out of what the decoder says.
var unknownField = regexp.MustCompile(`^(unknown|duplicate) field "(.*)"$`)

// wrongType takes the path out of what the decoder says of a value of another type.
var wrongType = regexp.MustCompile(`cannot unmarshal (.+) into Go struct field \w+\.(\S+) of type (\S+)$`)

// fieldPath leaves out of a path the names of Go's types that are within each other.
func fieldPath(path string) string {
	parts := slices.DeleteFunc(strings.Split(path, "."), func(part string) bool {
		return part != "" && part[0] >= 'A' && part[0] <= 'Z'
	})
	return printable(strings.Join(parts, "."))
}

// decodeErrors turns what the decoder says into errors of fields.
func decodeErrors(at string, err error) error {
	var errs plan.FieldErrors
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		if m := wrongType.FindStringSubmatch(err.Error()); m != nil {
			return oneError(at+"."+fieldPath(m[2]), "use a value of that type", "a %s cannot be read as %s",
				printable(m[1]), printable(m[3]))
		}
		return oneError(at, "correct the value", "it cannot be decoded: %s", printable(err.Error()))
	}
	for _, e := range strict.Errors() {
		if m := unknownField.FindStringSubmatch(e.Error()); m != nil {
			fix := "leave it out, or correct its name"
			if m[1] == "duplicate" {
				fix = "leave one of them out"
			}
			what := map[string]string{"unknown": "is no field of it", "duplicate": "is there twice"}[m[1]]
			errs.Add(at+"."+printable(m[2]), fix, "%s", what)
			continue
		}
		errs.Add(at, "correct the YAML", "%s", printable(e.Error()))
	}
	return errs.Err()
}

// metadata holds the names against the grammar that the API server has for them, and refuses what is paused.
func (r *rules) metadata(m Manifest) {
	name, namespace := m.Object.GetName(), m.Object.GetNamespace()
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		r.add("metadata.name", "use lower-case letters, digits, hyphens and dots", "%q is not a name", name)
	}
	if errs := validation.IsDNS1123Label(namespace); namespace != "" && len(errs) > 0 {
		r.add("metadata.namespace", "use lower-case letters, digits and hyphens", "%q is not a name", namespace)
	}
	if m.Object.GetAnnotations()[v1alpha1.PauseAnnotationKey] == "true" {
		r.add("metadata.annotations["+v1alpha1.PauseAnnotationKey+"]", "leave it out",
			"an experiment that is paused does nothing")
	}
	if m.Object.GetDeletionTimestamp() != nil {
		r.add("metadata.deletionTimestamp", "leave it out", "an object that is being deleted cannot be made")
	}
}

// oneError returns a list of one.
func oneError(field, fix, detail string, args ...any) error {
	var errs plan.FieldErrors
	errs.Add(field, fix, detail, args...)
	return errs
}

// join adds the errors of fields in err to a list; any other error becomes one of the whole.
func join(errs plan.FieldErrors, err error) plan.FieldErrors {
	var list plan.FieldErrors
	if errors.As(err, &list) {
		return append(errs, list...)
	}
	errs.Add("manifests", "see above", "%s", printable(err.Error()))
	return errs
}

// nearest writes which candidate was meant, or all of them.
func nearest(name string, candidates []string) string {
	all := "known: " + strings.Join(candidates, ", ")
	if near, ok := plan.Nearest(name, candidates); ok {
		return fmt.Sprintf("did you mean %q? %s", near, all)
	}
	return all
}

// printable writes text of others so that it can be shown on a terminal: on one line, without control characters, and
// not without end.
func printable(text string) string {
	const most = 300
	quoted := fmt.Sprintf("%q", text)
	quoted = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	quoted = strings.ReplaceAll(quoted, `\n`, "; ")
	if len(quoted) > most {
		quoted = strings.ToValidUTF8(quoted[:most], "") + "..."
	}
	return quoted
}
