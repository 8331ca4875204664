package history_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
)

func TestGTIDsAreReadAsTheServerWritesThem(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"a:1":                         "a:1",
		"A:1-3:4:7-8,\nb:2":           "a:1-4:7-8, b:2",
		"a:5:1-2:tag:1-3:9":           "a:1-2:5, a:tag:1-3:9",
		"a:1-5, a:3-9":                "a:1-9",
		"a":                           "error",
		"a:0":                         "error",
		"a:3-1":                       "error",
		"a:1-x":                       "error",
		":1":                          "error",
		"a:99999999999999999999999-1": "error",
	} {
		got := "error"
		if set, err := history.ParseGTIDs(text); err == nil {
			got = set.String()
		}
		if got != want {
			t.Errorf("ParseGTIDs(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestGTIDsAreSets compares the arithmetic of ranges with that of maps.
func TestGTIDsAreSets(t *testing.T) {
	draw := func(t *rapid.T, name string) (history.GTIDs, map[string]bool) {
		set, flat := history.GTIDs{}, map[string]bool{}
		for i := range rapid.IntRange(0, 6).Draw(t, name) {
			of := rapid.SampledFrom([]string{"a", "b", "a:tag"}).Draw(t, fmt.Sprint(name, i))
			from := rapid.Int64Range(1, 12).Draw(t, fmt.Sprint(name, i, "from"))
			to := from + rapid.Int64Range(0, 4).Draw(t, fmt.Sprint(name, i, "more"))
			set = set.With(history.GTIDs{of: {{From: from, To: to}}})
			for n := from; n <= to; n++ {
				flat[fmt.Sprint(of, ":", n)] = true
			}
		}
		return set, flat
	}
	count := func(g history.GTIDs) (n int) {
		for _, ranges := range g {
			for _, r := range ranges {
				n += int(r.To - r.From + 1)
			}
		}
		return n
	}
	rapid.Check(t, func(t *rapid.T) {
		a, flatA := draw(t, "a")
		b, flatB := draw(t, "b")
		onlyA, both := 0, len(flatB)
		for id := range flatA {
			if !flatB[id] {
				onlyA++
				both++
			}
		}
		if got := count(a.Without(b)); got != onlyA {
			t.Fatalf("%q without %q is %q: %d transactions, want %d", a, b, a.Without(b), got, onlyA)
		}
		if got := count(a.With(b)); got != both || !a.With(b).Has(a) || a.Has(b) != (len(flatB) == both-onlyA &&
			both == len(flatA)) {
			t.Fatalf("%q with %q is %q: %d transactions, want %d", a, b, a.With(b), got, both)
		}
		again, err := history.ParseGTIDs(a.String())
		if err != nil || again.String() != a.String() {
			t.Fatalf("%q is read back as %q: %v", a, again, err)
		}
	})
}

// FuzzParseGTIDs holds that what is read is written in a form that is read as the same.
func FuzzParseGTIDs(f *testing.F) {
	f.Add("a:1-3:t:5, b:7")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := history.ParseGTIDs(text)
		if err != nil {
			return
		}
		again, err := history.ParseGTIDs(set.String())
		if err != nil || !again.Has(set) || !set.Has(again) {
			t.Fatalf("%q is %q, and that is %q: %v", text, set, again, err)
		}
	})
}
