package check

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Damage judges the checks themselves: a file that the plan damages on purpose (parameter "file" of a fault) must be
// found by one of the checks of data, in the instance that it belongs to. What is found in another damaged file does
// not count. It never fails: if the checks miss known damage, they may miss other damage too, so the trial is
// Unknown.
func Damage() Check {
	return Check{
		Name:    "damage",
		When:    End,
		Promise: "What was damaged on purpose is found.",
		Source:  "Seatrial's design: a check that cannot find what is there proves nothing",
		Unit:    "files damaged and found",
		Applies: damages,
		judge:   judgeDamage,
	}
}

// damages reports whether the plan has a fault that damages a file.
func damages(p plan.Plan) bool {
	return slices.ContainsFunc(p.AllSteps(), func(st plan.Step) bool {
		return st.Fault != nil && damaged(*st.Fault) != ""
	})
}

// damaged returns the file that a fault damages, "" if none.
func damaged(f plan.Fault) string {
	file, _ := f.Params["file"].(string)
	return file
}

func judgeDamage(r *ruling) {
	var found []Finding
	for _, res := range Judge(r.world, []Check{Checksums(), Integrity(), Rows()}).Results {
		found = append(found, res.Findings...)
	}
	files := map[int]string{}
	for _, st := range r.trial.Plan.AllSteps() {
		if st.Fault != nil {
			files[st.N] = damaged(*st.Fault)
		}
	}
	for _, l := range r.trial.Faults {
		file := files[l.Step]
		confirmed := l.Facts[history.StageConfirmed]
		switch {
		case file == "":
		case confirmed == nil:
			r.unknown("%s was never shown to have damaged anything", l)
		case !slices.ContainsFunc(found, func(f Finding) bool {
			return f.Span.NotAfter >= confirmed.Span.NotBefore && names(f.Subject, l.Victim) &&
				(names(f.Subject, stem(file)) || !slices.ContainsFunc(slices.Collect(maps.Values(files)),
					func(other string) bool { return names(f.Subject, stem(other)) }))
		}):
			r.unknown("%s damaged file %s of %s, and neither checksums nor integrity nor rows found anything there", l,
				file, l.Victim)
		default:
			r.evidence++
		}
	}
}

// stem returns the name of a file without its ending: of a tablespace, the table's.
func stem(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".")
	return name
}

// names reports whether a finding's subject contains a name as a word.
func names(subject, name string) bool {
	between := func(c rune) bool { return strings.ContainsRune(" ,/.", c) }
	return slices.Contains(strings.FieldsFunc(subject, between), name)
}
