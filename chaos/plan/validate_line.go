package plan

import "time"

// The limits of what a line is made to be: a delay that round trips show on a busy machine and that no connection dies
// of, and a rate that a second of echo requests fills.
const (
	MinDelay = 10 * time.Millisecond
	MaxDelay = 5 * time.Second
	MinKbits = 500
	MaxKbits = 50_000
)

// The limits of the step of a clock: one that is told from what clocks differ by, and one that certificates outlive.
const (
	MinOffset = 2 * time.Second
	MaxOffset = 12 * time.Hour
)

// line holds the delay and the rate of a line against the rules.
func (v *validator) line(at string, f Fault, takes NetworkCaps) {
	if takes.Delay && (f.Delay.D() < MinDelay || f.Delay.D() > MaxDelay) {
		v.errs.add(at+".delay", "use "+MinDelay.String()+" to "+MaxDelay.String(), "%s is out of range", f.Delay)
	}
	if takes.Kbits {
		v.within(at+".kbits", f.Kbits, MinKbits, MaxKbits)
	}
}

// offset holds the step of a clock against the rules.
func (v *validator) offset(at string, f Fault, known FaultCaps) {
	by := f.Offset.D()
	switch {
	case !known.Offset && by != 0:
		v.errs.add(at, "leave it out", "fault %q does not take it", f.Name)
	case known.Offset && (by < -MaxOffset || by > MaxOffset || by > -MinOffset && by < MinOffset):
		v.errs.add(at, "use "+MinOffset.String()+" to "+MaxOffset.String()+", or as much with a minus",
			"%s is out of range", f.Offset)
	}
}
