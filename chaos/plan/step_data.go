package plan

import "math"

// Tamper is a corruption on purpose.
type Tamper struct {
	// Kind is "delete-row": delete one acknowledged row with a connection of its own; or "flip-byte": invert one byte
	// of the quiet table's file on the disk, which a server that has the page in memory does not see.
	Kind    string `json:"kind"`
	Ordinal int    `json:"ordinal"`
	Page    int    `json:"page,omitempty"` // Of flip-byte.
	Byte    int    `json:"byte,omitempty"` // Of flip-byte: in the page.
}

// tamper checks a corruption on purpose.
func (v *validator) tamper(at string, s Step, _ depth) {
	at += ".tamper"
	t := s.Tamper
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
