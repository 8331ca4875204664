package plan_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/plan"
)

func TestDecodeReadsWhatEncodeWrote(t *testing.T) {
	var b bytes.Buffer
	if err := legal().Encode(&b); err != nil {
		t.Fatal(err)
	}
	got, err := plan.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(legal(), got); d != "" {
		t.Errorf("plan (-want +got):\n%s", d)
	}
}

func TestDecodeIsStrict(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", "decode plan: unexpected end of JSON input"},
		{"unknown field", `{"schema":1,"sede":4}`, `decode plan: json: unknown field "sede"`},
		{"unknown field below", `{"steps":[{"n":1,"durration":"1s"}]}`, `unknown field "durration"`},
		{"two plans", `{"schema":1}{"schema":1}`, "after top-level value"},
		{"newer", `{"schema":2,"new":true}`, "schema 2, want at most 1"},
		{"duration", `{"bounds":{"ready":5}}`, `want text like "30s"`},
		{"not a number", `{"workers":"two"}`, "decode plan"},
		{"overflow", `{"seed":99999999999999999999}`, "decode plan"},
		{"too long", strings.Repeat(" ", 5<<20), "longer than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := plan.Decode(strings.NewReader(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if _, err := plan.Decode(strings.NewReader(`{"schema":2}`)); !errors.Is(err, plan.ErrSchema) {
		t.Errorf("got %v", err)
	}
}

func FuzzDecodeThenValidate(f *testing.F) {
	var b bytes.Buffer
	if err := legal().Encode(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(b.Bytes()))
	b.Reset()
	if err := setPlan().Encode(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"steps":[{"do":"fault"},{"do":"scale","replicas":-1},{"do":"tamper"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := plan.Decode(bytes.NewReader(data))
		if err != nil {
			return
		}
		var text bytes.Buffer
		if err := p.Render(&text); err != nil { // An illegal plan can be shown, too.
			t.Fatal(err)
		}
		if p.Validate(caps()) != nil {
			return
		}
		for _, s := range p.Steps {
			if s.Fault != nil && (s.Fault.Hold <= 0 || s.Fault.Hold >= s.Bound || s.Bound.D() > plan.MaxBound) {
				t.Fatalf("step %d passes with hold %s and bound %s", s.N, s.Fault.Hold, s.Bound)
			}
		}
	})
}
