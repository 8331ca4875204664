package plan

import (
	"fmt"
	"strings"
	"unicode"
)

// maxNote bounds what a note says, in bytes.
const maxNote = 400

// note holds that a note is one line of printable text: it is shown on terminals.
func (v *validator) note(at, note string) {
	switch {
	case len(note) > maxNote:
		v.errs.add(at, fmt.Sprintf("use at most %d bytes", maxNote), "has %d bytes", len(note))
	case strings.ContainsFunc(note, func(r rune) bool { return !unicode.IsPrint(r) }):
		v.errs.add(at, "use one line of printable text", "%q cannot be printed", note)
	}
}

func (v *validator) pause(at string, s Step) {
	v.lasting(at+".lasting", s.Lasting)
	if s.Lasting >= s.Bound {
		v.errs.add(at+".lasting", "pause for less, or raise the bound", "%s does not fit into the step's bound of %s",
			s.Lasting, s.Bound)
	}
}
