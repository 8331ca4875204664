package network

import (
	"strings"

	"github.com/seatrial/seatrial/chaos/fault"
)

// observation is what one probe or counter showed, and whether that is as it should be.
type observation struct {
	fault.Fact
	ok bool
}

// observed returns the facts of all observations, and an error that names those that are not as they should be.
func observed(all []observation) (facts []fault.Fact, err error) {
	var wrong []string
	for _, o := range all {
		facts = append(facts, o.Fact)
		if !o.ok {
			wrong = append(wrong, o.Sentence)
		}
	}
	if len(wrong) > 0 {
		err = fault.NotYet("%s", strings.Join(wrong, "; "))
	}
	return facts, err
}
