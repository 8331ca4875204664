package check

import (
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Damage judges the checks themselves: what a plan damages on purpose (the parameter "file" of a fault) must be found
// by one of those that look at data, in the instance whose it is. It never fails. Where nobody finds what is known to
// be there, nobody would have found what is not known: the trial is Unknown.
func Damage() Check {
	return Check{
		Name:    "damage",
		Promise: "What was damaged on purpose is found.",
		Source:  "Seatrial's design: a check that cannot find what is there proves nothing",
		Applies: damages,
		Judge:   judgeDamage,
	}
}

// damages reports that the plan has a fault that damages a file. Where there is no plan every check applies.
func damages(h *world.World) bool {
	s, err := h.Trial()
	return err != nil || slices.ContainsFunc(s.Plan.AllSteps(), func(st plan.Step) bool {
		return st.Fault != nil && damaged(*st.Fault) != ""
	})
}

// damaged returns the file that a fault damages, empty when it damages none.
func damaged(f plan.Fault) string {
	file, _ := f.Params["file"].(string)
	return file
}

func judgeDamage(h *world.World) Result {
	r := newRuling("files damaged and found")
	s, err := h.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	var found []Finding
	for _, res := range Judge(h, []Check{Checksums(), Integrity(), Rows()}).Results {
		found = append(found, res.Findings...)
	}
	files := map[int]string{}
	for _, st := range s.Plan.AllSteps() {
		if st.Fault != nil {
			files[st.N] = damaged(*st.Fault)
		}
	}
	for _, l := range s.Faults {
		file := files[l.Step]
		confirmed := l.Facts[history.StageConfirmed]
		switch {
		case file == "":
		case confirmed == nil:
			r.unknown("%s was never shown to have damaged anything", l)
		case !slices.ContainsFunc(found, func(f Finding) bool {
			return f.Span.NotAfter >= confirmed.Span.NotBefore && ofInstance(f.Subject, l.Victim)
		}):
			r.unknown("%s damaged file %s of %s, and neither checksums nor integrity nor rows found anything there", l,
				file, l.Victim)
		default:
			r.evidence++
		}
	}
	return r.result()
}

// ofInstance reports that a finding's subject is of an instance: its name is a word of it.
func ofInstance(subject, instance string) bool {
	return slices.Contains(strings.FieldsFunc(subject, func(c rune) bool { return c == ' ' || c == ',' || c == '/' }),
		instance)
}
