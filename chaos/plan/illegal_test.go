package plan_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/plantest"
)

// refuse reads and judges the text of a plan.
func refuse(text []byte, caps plan.Caps) error {
	p, err := plan.Decode(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return p.Validate(caps)
}

// TestIllegalPlansAreRefused holds that every plan that must be refused is, that what is wrong is named, and that
// nothing of a plan comes through to a terminal as it is.
func TestIllegalPlansAreRefused(t *testing.T) {
	for i, p := range plantest.Legal() {
		if err := p.Validate(plantest.Caps()); err != nil {
			t.Fatalf("legal plan %d: %v", i, err)
		}
	}
	cases := plantest.Illegal()
	if len(cases) < 300 {
		t.Fatalf("%d illegal plans, want 300 at least", len(cases))
	}
	refused := 0
	for _, c := range cases {
		if plantest.OfParams(c) {
			continue // Refused by the faults that there are, and not by these.
		}
		err := refuse(c.Text, plantest.Caps())
		if err == nil {
			t.Errorf("%s: passes", c.Name)
			continue
		}
		refused++
		said := err.Error()
		if !strings.Contains(said, c.Field) {
			t.Errorf("%s: %q is not named:\n%s", c.Name, c.Field, said)
		}
		foreign := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if len(said) > 40<<10 || strings.ContainsFunc(said, foreign) {
			t.Errorf("%s: %d bytes, or what cannot be printed: %q", c.Name, len(said), said)
		}
		for _, line := range strings.Split(said, "\n")[1:] {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: a line of somebody else's: %q", c.Name, line)
			}
		}
	}
	t.Logf("%d of %d illegal plans refused", refused, len(cases))
}
