package history_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
)

func TestLeft(t *testing.T) {
	mount := history.Thing{Class: history.ThingMount, Name: "/mnt", Is: "tmpfs"}
	table := history.Thing{Class: history.ThingTable, Name: "inet seatrial_r1_3", Run: "r1", Step: 3}
	unmarked := table
	unmarked.Run, unmarked.Step = "", 0
	ext4 := mount
	ext4.Is = "ext4"
	type things = []history.Thing
	for _, c := range []struct {
		name                string
		before, after, want things
	}{
		{"nothing", nil, nil, nil},
		{"there before", things{mount}, things{mount}, nil},
		{"gone since", things{mount, table}, things{mount}, nil},
		{"left", things{mount}, things{mount, table}, things{table}},
		{"twice now", things{mount}, things{mount, mount}, things{mount}},
		{"another state", things{mount}, things{ext4}, things{ext4}},
		{"the mark alone is no difference", things{unmarked}, things{table}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, history.Left(c.before, c.after)); d != "" {
				t.Errorf("left (-want +got):\n%s", d)
			}
		})
	}
}

func TestLeftOfNothingAddedIsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		thing := rapid.Custom(func(t *rapid.T) history.Thing {
			return history.Thing{Class: rapid.SampledFrom([]string{"file", "mount"}).Draw(t, "class"),
				Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")}
		})
		before := rapid.SliceOf(thing).Draw(t, "before")
		added := rapid.SliceOfN(thing, 0, 4).Draw(t, "added")
		after := append(append([]history.Thing{}, before...), added...)
		if left := history.Left(before, after); len(left) != len(added) {
			t.Errorf("of %v, %v is left, added was %v", after, left, added)
		}
		if left := history.Left(after, before); len(left) > 0 {
			t.Errorf("%v is left although nothing came", left)
		}
	})
}
