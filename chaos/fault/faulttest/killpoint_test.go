package faulttest

import (
	"fmt"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
)

// KillPoint is a time to kill a harness: right before a stage is journalled, or right after.
type KillPoint struct {
	Stage history.FaultStage
	After bool
}

// KillPoints returns all of them, in the order of a fault's life. A fault that arms nothing never comes to those of
// history.StageArmed.
func KillPoints() []KillPoint {
	var all []KillPoint
	for _, stage := range []history.FaultStage{
		history.StageIntent, history.StageArmed, history.StageInjected, history.StageConfirmed, history.StageHealed,
		history.StageConfirmedHealed,
	} {
		all = append(all, KillPoint{stage, false}, KillPoint{stage, true})
	}
	return all
}

// String names the point, for example "before injected".
func (p KillPoint) String() string {
	if p.After {
		return "after " + string(p.Stage)
	}
	return "before " + string(p.Stage)
}

// ParseKillPoint reads what String wrote.
func ParseKillPoint(text string) (KillPoint, error) {
	for _, p := range KillPoints() {
		if p.String() == text {
			return p, nil
		}
	}
	return KillPoint{}, fmt.Errorf("kill point %q is none of %q", text, KillPoints())
}

// Killer is a journal at which the harness dies.
type Killer struct {
	Journal fault.Journal
	At      KillPoint
	Die     func() // Ends the harness. It may return: the guard is then given an error, and no hold on anything.
}

// Append writes an entry, and dies before it or after it.
func (k Killer) Append(run string, at history.Time, f history.Fault) error {
	if f.Stage != k.At.Stage {
		return k.Journal.Append(run, at, f)
	}
	if k.At.After {
		if err := k.Journal.Append(run, at, f); err != nil {
			return err
		}
	}
	k.Die()
	return fmt.Errorf("killed %s", k.At)
}
