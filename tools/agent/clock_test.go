package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// TestTheClockOfAnotherBootIsNotSet has a mark of a boot that is over: nothing may be set by it.
func TestTheClockOfAnotherBootIsNotSet(t *testing.T) {
	var all []probe.Clock
	for _, args := range [][]string{{}, {"--ahead", "1h", "--boot", "another"}, {}} {
		var out bytes.Buffer
		if err := runClock(t.Context(), stdio{out: &out}, args); err != nil {
			t.Fatal(err)
		}
		var c probe.Clock
		if err := json.Unmarshal(out.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for _, c := range all {
		if off := (c.Ahead() - all[0].Ahead()).Abs(); off > 5*time.Second || c.Boot != all[0].Boot || c.Boot == "" {
			t.Errorf("got %+v, and before %+v", c, all[0])
		}
		if off := time.Since(c.Time()).Abs(); off > time.Minute {
			t.Errorf("got %s", c.Time())
		}
	}
	for _, args := range [][]string{
		{"--ahead", "1h"}, {"--boot", "x"}, {"--ahead", "-1h", "--boot", "x"}, {"operand"},
	} {
		if err := runClock(t.Context(), stdio{}, args); err == nil {
			t.Errorf("%q passes", args)
		}
	}
}
