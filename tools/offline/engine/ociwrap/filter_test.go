package ociwrap

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

// withoutResource is what the host in the golden files can grant.
const withoutResource = Set(1<<41 - 1 - 1<<24)

func TestFilterConfigGolden(t *testing.T) {
	config, err := os.ReadFile("testdata/config.json")
	if err != nil {
		t.Fatal(err)
	}
	got, changed, err := Filter(config, Config, withoutResource)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/config.golden.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/config.golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("FilterConfig (-want +got):\n%s", diff)
	}
	if !changed {
		t.Error("nothing was removed")
	}
}

func TestFilter(t *testing.T) {
	for name, tc := range map[string]struct {
		process bool
		in      string
		want    string // Empty when it stays as it is.
		bad     bool
	}{
		"process": {process: true, in: `{"cwd":"/","capabilities":{"bounding":["CAP_SYS_RESOURCE","CAP_KILL"]}}`,
			want: `{"cwd":"/","capabilities":{"bounding":["CAP_KILL"]}}`},
		"config is not a process": {in: `{"capabilities":{"bounding":["CAP_SYS_RESOURCE"]}}`},
		"process is not a config": {process: true,
			in: `{"process":{"capabilities":{"bounding":["CAP_SYS_RESOURCE"]}}}`},
		"nothing to cut":  {in: "{ \"process\" : {\"capabilities\":{\"bounding\":[ \"CAP_KILL\" ]}}}\n"},
		"no capabilities": {in: `{"process":{"args":["x"]}}`},
		"null":            {in: `{"process":{"capabilities":null}}`},
		"strange capability lists": {
			in: `{"process":{"capabilities":{"bounding":"CAP_SYS_RESOURCE","effective":[1]}}}`},
		"capabilities in a list": {in: `{"process":[{"capabilities":{"bounding":["CAP_SYS_RESOURCE"]}}]}`},
		"an unknown set": {in: `{"process":{"capabilities":{"future":["CAP_SYS_RESOURCE"]}}}`,
			want: `{"process":{"capabilities":{"future":[]}}}`},
		"other case and twice": {
			in: `{"Process":{"Capabilities":{"Bounding":["sys_resource"]}},` +
				`"process":{"capabilities":{"ambient":["CAP_SYS_RESOURCE"]}}}`,
			want: `{"Process":{"Capabilities":{"Bounding":[]}},"process":{"capabilities":{"ambient":[]}}}`},
		"escaped": {in: `{"process":{"capabilities":{"bounding":["CAP\u005fSYS_RESOURCE","CAP_KILL"]}}}`,
			want: `{"process":{"capabilities":{"bounding":["CAP_KILL"]}}}`},
		"cut off":   {in: `{"process":{"capabilities":{"bounding":["CAP_`, bad: true},
		"empty":     {in: ``, bad: true},
		"two texts": {in: `{} {}`, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			kind := Config
			if tc.process {
				kind = Process
			}
			got, _, err := Filter([]byte(tc.in), kind, withoutResource)
			if (err != nil) != tc.bad {
				t.Fatalf("error = %v, want an error: %t", err, tc.bad)
			}
			if tc.bad {
				return
			}
			if tc.want == "" && string(got) != tc.in {
				t.Errorf("got  %s\nwant the text as it was, %s", got, tc.in)
			}
			if tc.want != "" {
				if diff := cmp.Diff(decode(t, []byte(tc.want)), decode(t, got)); diff != "" {
					t.Errorf("filtered (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestFilterChangesCapabilitiesOnly draws whole documents and compares them with their sets blanked out, and the sets
// with a filter written down a second way.
func TestFilterChangesCapabilitiesOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capabilities := map[string]any{}
		names := rapid.SliceOf(rapid.SampledFrom(append(Known(40).Names(), "CAP_NEW")))
		for _, set := range []string{"bounding", "effective", "inheritable", "permitted", "ambient"} {
			capabilities[set] = names.Draw(t, set)
		}
		document := rapid.MapOf(rapid.String(), anyJSON(3)).Draw(t, "document")
		process := rapid.MapOf(rapid.String(), anyJSON(2)).Draw(t, "process")
		for key := range document {
			if strings.EqualFold(key, "process") {
				delete(document, key)
			}
		}
		for key := range process {
			if strings.EqualFold(key, "capabilities") {
				delete(process, key)
			}
		}
		process["capabilities"], document["process"] = capabilities, process
		in, err := json.MarshalIndent(document, "", rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		allowed := Set(rapid.Uint64().Draw(t, "allowed"))
		out, _, err := Filter(in, Config, allowed)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range []string{"bounding", "effective", "inheritable", "permitted", "ambient"} {
			capabilities[set] = slices.DeleteFunc(capabilities[set].([]string), func(name string) bool {
				n := slices.Index(Known(40).Names(), name)
				return n >= 0 && allowed>>n&1 == 0
			})
		}
		want, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(decode(t, want), decode(t, out)); diff != "" {
			t.Errorf("filtered (-want +got):\n%s", diff)
		}
	})
}

// anyJSON draws JSON values, numbers among them that a float does not hold.
func anyJSON(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.String().AsAny(), rapid.Bool().AsAny(), rapid.Uint64().AsAny(), rapid.Just[any](nil),
		rapid.SampledFrom([]json.Number{"18446744073709551616", "1.10", "1E+2"}).AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	return rapid.OneOf(append(leaves, rapid.SliceOfN(anyJSON(depth-1), 0, 4).AsAny(),
		rapid.MapOfN(rapid.String(), anyJSON(depth-1), 0, 4).AsAny())...)
}

func decode(t interface{ Fatal(...any) }, text []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var out any
	if err := decoder.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func FuzzFilterConfig(f *testing.F) {
	config, err := os.ReadFile("testdata/config.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(config, uint64(withoutResource))
	f.Add([]byte(`{"process":{"capabilities":{"bounding":["CAP_KILL"]}}}`), uint64(0))
	f.Add([]byte(`[{"process":1}]`), uint64(0))
	f.Fuzz(func(t *testing.T, config []byte, allowed uint64) {
		out, changed, err := Filter(config, Config, Set(allowed))
		if err != nil {
			if json.Valid(config) {
				t.Fatalf("valid JSON refused: %v", err)
			}
			return
		}
		if !json.Valid(out) {
			t.Fatalf("not JSON any more: %s", out)
		}
		if !changed && !bytes.Equal(config, out) {
			t.Fatalf("nothing was cut and the text changed: %s", out)
		}
		if again, changed, err := Filter(out, Config, Set(allowed)); err != nil || changed || !bytes.Equal(again, out) {
			t.Fatalf("a second pass changed something (%v): %s", err, again)
		}
	})
}
