package check

import (
	"encoding/json"
	"testing"
)

// FuzzScan reads whatever there is with everything the scanner can read: it ends and does not crash, and what it says
// of a string or a number in sound JSON is what encoding/json says.
func FuzzScan(f *testing.F) {
	for _, text := range []string{
		`{"a":{"b":[1,2,{"c":"x\"y\\"}],"n":-12},"t":true,"e":""}`, `{`, `[`, `"`, `{"a"`, `{"a":`, `{"a":1,}`, `[1,`,
		`{"a":"\ud83d\ude00"}`, `null`, ``, `{"a":1e9}`, `{"a":"2026-11-21T09:05:48Z"}`, `]`, `{"a":}`, `[}`, `[:]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, read := range []func(*scan){
			func(s *scan) { s.skip() }, func(s *scan) { s.num() }, func(s *scan) { s.yes() },
			func(s *scan) { s.seconds() }, func(s *scan) { s.str(nil) },
		} {
			s := &scan{text: text}
			s.object(func([]byte) { read(s) })
			s = &scan{text: text}
			s.array(func() { read(s) })
		}
		var want map[string]string
		if json.Unmarshal(text, &want) != nil || want == nil {
			return
		}
		got, s := map[string]string{}, &scan{text: text}
		s.object(func(name []byte) {
			var key string
			if json.Unmarshal(append(append([]byte{'"'}, name...), '"'), &key) == nil {
				got[key] = s.str(nil)
			}
		})
		for key, text := range want {
			if got[key] != text && !s.bad {
				t.Errorf("%q: got %q, want %q", key, got[key], text)
			}
		}
	})
}
