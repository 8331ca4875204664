package chaosmesh_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/fault/chaosmesh"
)

// mistake replaces a text of a valid manifest; the error must name the field.
type mistake struct {
	Name  string `json:"name"`
	Old   string `json:"old"`
	New   string `json:"new"`
	Field string `json:"field"` // Empty for the whole manifest.
}

// mistakes are grouped by the valid manifest.
func mistakes(t *testing.T) map[string][]mistake {
	t.Helper()
	var all map[string][]mistake
	if err := yaml.UnmarshalStrict(read(t, "testdata/mistakes.yaml"), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMistakesAreRefused makes one mistake at a time: the error names the field, and there are no steps.
func TestMistakesAreRefused(t *testing.T) {
	n := 0
	for file, list := range mistakes(t) {
		good := string(read(t, "testdata/manifests/"+file+".yaml"))
		for _, m := range list {
			n++
			t.Run(file+"/"+m.Name, func(t *testing.T) {
				if !strings.Contains(good, m.Old) {
					t.Fatalf("%q is not in it", m.Old)
				}
				refused(t, strings.Replace(good, m.Old, m.New, 1), m.Field)
			})
		}
	}
	t.Logf("%d mistakes by hand", n)
	if n < 60 {
		t.Errorf("%d mistakes, want 60 at least", n)
	}
}

// refused checks that a manifest is refused with an error that names the field.
func refused(t *testing.T, manifest, field string) {
	t.Helper()
	p, err := chaosmesh.Import([]byte(manifest), around())
	list := errorsOf(t, err)
	if len(list) == 0 || len(p.Steps) > 0 {
		t.Fatalf("it is legal: %d steps, %v", len(p.Steps), err)
	}
	if field == "" {
		field = "manifests[0]"
	} else if !strings.HasPrefix(field, "manifests[") {
		field = "manifests[0]." + field
	}
	for _, e := range list {
		if e.Field == field || strings.HasPrefix(e.Field, field) {
			t.Log(e)
			return
		}
	}
	t.Errorf("got %v, want %s", err, field)
}

// TestUnknownFieldsAnywhereAreRefused adds an unknown field to every object of every manifest.
func TestUnknownFieldsAnywhereAreRefused(t *testing.T) {
	n := 0
	for file := range mistakes(t) {
		for i, doc := range strings.Split(string(read(t, "testdata/manifests/"+file+".yaml")), "\n---\n") {
			for _, path := range objects(t, doc) {
				n++
				t.Run(fmt.Sprintf("%s/%d%s", file, i, path), func(t *testing.T) {
					changed := surplus(t, doc, path)
					_, err := chaosmesh.Import(changed, around())
					list := errorsOf(t, err)
					if len(list) == 0 || !strings.HasSuffix(list[0].Field, ".surplus") {
						t.Errorf("got %v, want an error of %s.surplus", err, path)
					}
				})
			}
		}
	}
	t.Logf("%d generated", n)
}

// objects returns the paths of all objects in a document whose keys are fields and not the user's.
func objects(t *testing.T, doc string) []string {
	t.Helper()
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(doc), &tree); err != nil {
		t.Fatal(err)
	}
	var paths []string
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			paths = append(paths, at)
			for key, value := range v {
				switch key {
				case "labelSelectors", "fieldSelectors", "pods", "physicalMachines":
				default:
					walk(at+"/"+key, value)
				}
			}
		case []any:
			for i, value := range v {
				walk(fmt.Sprintf("%s/%d", at, i), value)
			}
		}
	}
	walk("", tree)
	return paths
}

// surplus returns the document with an unknown field in the object at the path.
func surplus(t *testing.T, doc, path string) []byte {
	t.Helper()
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(doc), &tree); err != nil {
		t.Fatal(err)
	}
	at := any(tree)
	for _, key := range strings.Split(path, "/")[1:] {
		switch v := at.(type) {
		case map[string]any:
			at = v[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil {
				t.Fatal(err)
			}
			at = v[i]
		}
	}
	at.(map[string]any)["surplus"] = "x"
	out, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
