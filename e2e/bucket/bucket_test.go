package bucket

import (
	"maps"
	"testing"
)

// TestRunsOf: a run has a verdict and lies two folders deep, and no name leads out of the directory that it is fetched
// into.
func TestRunsOf(t *testing.T) {
	got := runsOf([]object{
		{"smoke/1/history.jsonl.zst", "a"}, {"smoke/1/plan.json", "b"}, {"smoke/1/verdict.json", "c"},
		{"smoke/2/history.jsonl.zst", "d"},
		{"nightly/verdict.json", "e"}, {"a/b/c/verdict.json", "f"},
		{"../victim/verdict.json", "g"}, {"smoke/../verdict.json", "h"}, {"/smoke/verdict.json", "i"},
		{"smoke//verdict.json", "j"},
	})
	want := map[string]string{"smoke/1": "history.jsonl.zstaverdict.jsonc"}
	if !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
