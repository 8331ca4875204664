package fault

import (
	"errors"
	"fmt"
	"slices"
)

// State is where a guarded fault is in its life.
//
//	fresh --Begin--> clean --Arm--> armed --Inject--> injected --Confirm--> shown (hold)
//	                   |              |                  |                   |
//	                   +------Heal----+-------Heal-------+--------Heal-------+---> healed --ConfirmHealed--> over
//	                                                                              ^  |
//	any state --error--> hurt ------------------------Heal------------------------+  +--Heal--> healed
//
// Heal is legal everywhere but before the beginning and after the end. A fault that was hurt once stays failed, also
// when it is over.
type State string

// The states of a guarded fault.
const (
	StateFresh    State = "fresh"    // Nothing was done.
	StateClean    State = "clean"    // Healed to begin with, and the intent is in the journal.
	StateArmed    State = "armed"    // The undo is armed, or the fault has none to arm.
	StateInjected State = "injected" // The act was carried out.
	StateShown    State = "shown"    // The effect was shown.
	StateHurt     State = "hurt"     // Something went wrong; anything may be left.
	StateHealed   State = "healed"   // The undo was carried out.
	StateOver     State = "over"     // The effect was shown to be gone.
)

// ErrOrder is wrapped by the error of a call that is not legal in the guard's state. Nothing was done then.
var ErrOrder = errors.New("not legal in this state")

// transition is one arrow of the drawing.
type transition struct {
	from []State
	to   State
}

// The arrows, by the verb on them. Every error leads to StateHurt instead.
func arrows(verb string) transition {
	switch verb {
	case verbBegin:
		return transition{[]State{StateFresh}, StateClean}
	case verbArm:
		return transition{[]State{StateClean}, StateArmed}
	case verbInject:
		return transition{[]State{StateArmed}, StateInjected}
	case verbConfirm:
		return transition{[]State{StateInjected}, StateShown}
	case verbHeal:
		begun := []State{StateClean, StateArmed, StateInjected, StateShown, StateHurt, StateHealed}
		return transition{begun, StateHealed}
	case verbConfirmHealed:
		return transition{[]State{StateHealed}, StateOver}
	}
	return transition{}
}

const (
	verbBegin         = "begin"
	verbArm           = "arm"
	verbInject        = "inject"
	verbConfirm       = "confirm"
	verbDuring        = "carry out the steps within"
	verbProvoke       = "carry out the steps that provoke"
	verbHold          = "hold"
	verbHeal          = "heal"
	verbConfirmHealed = "confirm healed"
)

// StageError is an error with the stage of a fault's life that could not be reached.
type StageError struct {
	Fault string
	Node  string
	Stage string // "begin", "arm", "inject", "confirm", "hold", "heal", "confirm healed".
	Err   error
}

// Error names the stage, the fault and its node.
func (e *StageError) Error() string {
	return fmt.Sprintf("%s fault %q on node %q: %v", e.Stage, e.Fault, e.Node, e.Err)
}

// Unwrap returns the cause.
func (e *StageError) Unwrap() error { return e.Err }

func (t transition) legal(s State) bool { return slices.Contains(t.from, s) }
