package plan

import (
	"fmt"
	"io/fs"
	"strings"
	"time"
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

// foreign holds the fields that only some faults take, and the rules of the fault's own.
func (v *validator) foreign(at string, f Fault, known *FaultCaps) {
	if known == nil {
		return
	}
	for _, field := range []struct {
		name       string
		set, takes bool
	}{
		{"container", f.Container != "", known.Container},
		{"file", f.File != "", known.File},
		{"grace", f.Grace != nil, known.Grace},
		{"manifest", len(f.Manifest) > 0, known.Manifest},
	} {
		if field.set && !field.takes {
			v.errs.add(at+"."+field.name, "leave it out", "fault %q does not take it", f.Name)
		}
	}
	if known.Container && f.Container != "" && !legalName(f.Container) {
		v.errs.add(at+".container", nameRule, "%q is not a name", f.Container)
	}
	if known.File && !legalFile(f.File) {
		v.errs.add(at+".file", "use a relative path with slashes and without .., of printable characters",
			"%q is not one of a file in a volume", f.File)
	}
	if known.Grace && f.Grace != nil && (*f.Grace < 0 || f.Grace.D() > time.Hour || f.Grace.D()%time.Second != 0) {
		v.errs.add(at+".grace", "use whole seconds, 0s to 1h0m0s", "%s is out of range", *f.Grace)
	}
	if known.Manifest && len(f.Manifest) == 0 {
		v.errs.add(at+".manifest", "set it", "is missing for fault %q", f.Name)
	}
	v.offset(at+".offset", f, *known)
	if known.Check != nil {
		for _, e := range known.Check(f, v.work) {
			v.errs = append(v.errs, FieldError{Field: at + "." + e.Field, Detail: e.Detail, Fix: e.Fix})
		}
	}
}

// legalFile reports that a path is one of a file within a directory, whoever prints it.
func legalFile(path string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	return fs.ValidPath(path) && path != "." && len(path) < 256 && !strings.ContainsFunc(path, unprintable)
}
