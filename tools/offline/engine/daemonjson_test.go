package engine

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// mergeDaemon registers our runtime in a text; nil is no file.
func mergeDaemon(text []byte, path string) ([]byte, Previous, error) {
	var config daemonConfig
	var err error
	if text != nil {
		config, err = parseDaemon(text)
	}
	previous := config.previous()
	if err == nil {
		config, err = config.register(path)
	}
	if err != nil {
		return nil, Previous{}, err
	}
	out, err := config.format()
	return out, previous, err
}

// unmergeDaemon removes our runtime from a text; nil means that the file should go.
func unmergeDaemon(text []byte, previous Previous, explicit bool) ([]byte, error) {
	config, err := parseDaemon(text)
	if config = config.unregister(previous, explicit); err != nil || config.isVoid() {
		return nil, err
	}
	return config.format()
}

func isRegistered(text []byte) bool {
	config, err := parseDaemon(text)
	return err == nil && config.isRegistered()
}

func TestMergeDaemon(t *testing.T) {
	for name, tc := range map[string]struct {
		in, want string
		absent   bool
		bad      string
	}{
		"no file": {absent: true,
			want: `{"default-runtime":"seatrial-runc","runtimes":{"seatrial-runc":{"path":"/w"}}}`},
		"empty file": {want: `{"default-runtime":"seatrial-runc","runtimes":{"seatrial-runc":{"path":"/w"}}}`},
		"others stay": {
			in: `{"log-opts":{"max-size":"10m"},"default-runtime":"gpu","x":18446744073709551615,"url":"a<b&c",` +
				`"runtimes":{"gpu":{"path":"/gpu","runtimeArgs":["-x"]}}}`,
			want: `{"log-opts":{"max-size":"10m"},"default-runtime":"seatrial-runc","x":18446744073709551615,` +
				`"url":"a<b&c","runtimes":{"gpu":{"path":"/gpu","runtimeArgs":["-x"]},"seatrial-runc":{"path":"/w"}}}`},
		"not JSON":          {in: "{", bad: "read docker's configuration"},
		"not an object":     {in: "[]", bad: "read docker's configuration"},
		"null":              {in: "null", bad: "need an object"},
		"runtimes a list":   {in: `{"runtimes":[]}`, bad: "runtimes"},
		"default no string": {in: `{"default-runtime":1}`, bad: "default-runtime"},
	} {
		t.Run(name, func(t *testing.T) {
			in := []byte(tc.in)
			if tc.absent {
				in = nil
			}
			got, previous, err := mergeDaemon(in, "/w")
			if tc.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tc.bad) {
					t.Errorf("error %v, want one with %q", err, tc.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(meaning(t, []byte(tc.want)), meaning(t, got)); diff != "" {
				t.Errorf("merged (-want +got):\n%s", diff)
			}
			if previous.Existed == tc.absent {
				t.Errorf("existed = %t", previous.Existed)
			}
		})
	}
}

// TestUnmergeRestores merges into whatever configuration, once or twice, and takes it out again.
func TestUnmergeRestores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := map[string]any{}
		for _, key := range rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "keys") {
			config[key] = rapid.OneOf(rapid.String().AsAny(), rapid.Uint64().AsAny(),
				rapid.MapOf(rapid.String(), rapid.Bool()).AsAny()).Draw(t, "value")
		}
		delete(config, "runtimes")
		delete(config, "default-runtime")
		names := rapid.SampledFrom([]string{"runc", "gpu", "gvisor"})
		if rapid.Bool().Draw(t, "has a default") {
			config["default-runtime"] = names.Draw(t, "default")
		}
		if rapid.Bool().Draw(t, "has runtimes") {
			config["runtimes"] = rapid.MapOf(names, rapid.MapOf(rapid.Just("path"), rapid.String())).Draw(t, "runtimes")
		}
		before, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		merged, previous, err := mergeDaemon(before, "/w")
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "again") {
			if merged, _, err = mergeDaemon(merged, "/w2"); err != nil {
				t.Fatal(err)
			}
		}
		if !isRegistered(merged) {
			t.Errorf("not registered in %s", merged)
		}
		after, err := unmergeDaemon(merged, previous, false)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(meaning(t, before), meaning(t, after)); diff != "" {
			t.Errorf("restored (-want +got):\n%s", diff)
		}
		spelled, err := unmergeDaemon(merged, previous, true)
		if err != nil {
			t.Fatal(err)
		}
		want, ok := config["default-runtime"]
		if !ok {
			want = "runc"
		}
		explicit, err := parseDaemon(spelled)
		if err != nil || explicit.defaultRuntime == nil || *explicit.defaultRuntime != want || explicit.isRegistered() {
			t.Errorf("spelled out: want the default %q: %s", want, spelled)
		}
	})
}

func TestUnmerge(t *testing.T) {
	gpu := "gpu"
	for name, tc := range map[string]struct {
		in       string
		previous Previous
		want     string // Empty when the file should go.
	}{
		"ours alone": {in: `{"default-runtime":"seatrial-runc","runtimes":{"seatrial-runc":{"path":"/w"}}}`},
		"a file that was empty": {in: `{"default-runtime":"seatrial-runc","runtimes":{"seatrial-runc":{"path":"/w"}}}`,
			previous: Previous{Existed: true}, want: `{}`},
		"another default since": {
			in:       `{"default-runtime":"new","runtimes":{"new":{"path":"/n"},"seatrial-runc":{"path":"/w"}}}`,
			previous: Previous{DefaultRuntime: &gpu},
			want:     `{"default-runtime":"new","runtimes":{"new":{"path":"/n"}}}`},
		"a setting since": {
			in:   `{"debug":true,"default-runtime":"seatrial-runc","runtimes":{"seatrial-runc":{"path":"/w"}}}`,
			want: `{"debug":true}`},
		"gone already": {in: `{"debug":true}`, previous: Previous{Existed: true}, want: `{"debug":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := unmergeDaemon([]byte(tc.in), tc.previous, false)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want == "" {
				if got != nil {
					t.Errorf("got %s, want no file", got)
				}
				return
			}
			if diff := cmp.Diff(meaning(t, []byte(tc.want)), meaning(t, got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRealRuntime(t *testing.T) {
	crun := "crun"
	for name, tc := range map[string]struct {
		in     string
		before *string
		want   string // Empty for an error.
	}{
		"no file":     {in: "", want: "runc"},
		"said":        {in: `{"default-runtime":"runc"}`, want: "runc"},
		"a path":      {in: `{"default-runtime":"crun","runtimes":{"crun":{"path":"/c"}}}`, want: "/c"},
		"ours before": {in: `{"default-runtime":"seatrial-runc"}`, want: "runc"},
		"behind ours": {in: `{"default-runtime":"seatrial-runc","runtimes":{"crun":{"path":"/c"}}}`,
			before: &crun, want: "/c"},
		"arguments":    {in: `{"default-runtime":"crun","runtimes":{"crun":{"path":"/c","runtimeArgs":["x"]}}}`},
		"a shim":       {in: `{"default-runtime":"kata","runtimes":{"kata":{"runtimeType":"io.containerd.kata.v2"}}}`},
		"not a string": {in: `{"default-runtime":[]}`},
	} {
		config, err := parseDaemon([]byte(tc.in))
		var got string
		if err == nil {
			got, err = config.realRuntime(tc.before)
		}
		if got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

func FuzzMergeDaemon(f *testing.F) {
	f.Add([]byte(`{"default-runtime":"gpu","runtimes":{"gpu":{"path":"/gpu"}}}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, in []byte) {
		merged, previous, err := mergeDaemon(in, "/w")
		if err != nil || isRegistered(in) {
			return
		}
		if after, err := unmergeDaemon(merged, previous, false); err != nil || isRegistered(after) {
			t.Errorf("merged %q into %s and back into %s: %v", in, merged, after, err)
		}
	})
}

// meaning is what a JSON text says, whatever its order and spacing; numbers stay as they are written.
func meaning(t interface{ Fatal(...any) }, text []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var out any
	if err := decoder.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}
