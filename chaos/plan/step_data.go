package plan

import (
	"fmt"
	"math"
)

// Tamper is a corruption on purpose.
type Tamper struct {
	// Kind is "delete-row": delete one acknowledged row with a connection of its own; or "flip-byte": invert one byte
	// of the quiet table's file on the disk, which a server that has the page in memory does not see.
	Kind    string `json:"kind"`
	Ordinal int    `json:"ordinal"`
	Page    int    `json:"page,omitempty"` // Of flip-byte.
	Byte    int    `json:"byte,omitempty"` // Of flip-byte: in the page.
}

// dataKinds are the steps that concern the workload's data.
func dataKinds() []kind {
	// data refuses a light workload, and one that is deleted, before it asks check.
	data := func(check func(v *validator, at string, s Step)) func(*validator, string, Step, depth) {
		return func(v *validator, at string, s Step, _ depth) {
			if v.work.Light {
				v.Add(at+".do", "leave the step out", "a light workload has no data to %s", s.Do)
				return
			}
			v.victim(at)
			check(v, at, s)
		}
	}
	return []kind{
		{do: ActionLoad, field: "commits",
			check: data(func(v *validator, at string, s Step) { v.Range(at+".commits", s.Commits, 1, math.MaxInt32) }),
			says:  func(_ Plan, s Step) string { return count(s.Commits, "acknowledged insert") + " more" }},
		{do: ActionChecksum, field: "label",
			check: data(func(v *validator, at string, s Step) { v.name(at+".label", s.Label) }),
			says: func(_ Plan, s Step) string {
				return fmt.Sprintf("the quiet tables of all instances, %q", s.Label)
			}},
		{do: ActionRead,
			check: data(func(*validator, string, Step) {}),
			says:  func(Plan, Step) string { return "every row of every instance, back" }},
		{do: ActionTamper, field: "tamper",
			check: data(func(v *validator, at string, s Step) { v.tamper(at+".tamper", *s.Tamper) }),
			says: func(p Plan, s Step) string {
				text := fmt.Sprintf("%s in %s", s.Tamper.Kind, p.Workload.pod(s.Tamper.Ordinal))
				if s.Tamper.Page != 0 {
					text += fmt.Sprintf(", byte %d of page %d", s.Tamper.Byte, s.Tamper.Page)
				}
				return text
			}},
	}
}

func (v *validator) tamper(at string, t Tamper) {
	v.OneOf(at+".kind", "tampering", t.Kind, "delete-row", "flip-byte")
	v.ordinal(at+".ordinal", t.Ordinal)
	if t.Kind != "flip-byte" {
		for field := range SetFields(Tamper{Page: t.Page, Byte: t.Byte}) {
			v.Add(at+"."+field, "leave it out", "%q does not take it", t.Kind)
		}
		return
	}
	// The page's checksum does not cover all of the bytes before and after these.
	v.Range(at+".page", t.Page, 1, math.MaxInt32)
	v.Range(at+".byte", t.Byte, 38, 16384-9)
}
