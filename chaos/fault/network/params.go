package network

import (
	"github.com/seatrial/seatrial/chaos/plan"
)

// The directions and the flows of a fault that cuts, beside the empty ones, which are all of them.
const (
	directionIn      = "in"
	directionOut     = "out"
	flowsEstablished = "established"
	flowsNew         = "new"
)

// packets are the parameters that say which packets a fault cuts.
type packets struct {
	// Direction is as seen from the victim: "in" are packets that come to it, "out" those that leave it; empty is both.
	Direction string `json:"direction,omitempty"`
	// Flows is which TCP connections are cut: those that were "established" when it began, or "new" ones; empty is all,
	// and every other packet as well.
	Flows  string `json:"flows,omitempty"`
	Reject bool   `json:"reject,omitempty"` // What is cut is answered with a reset, or by ICMP.
}

func (p packets) validate(errs *plan.FieldErrors) {
	validateDirection(errs, p.Direction)
	if p.Flows != "" {
		errs.OneOf("flows", "flows", p.Flows, "all", flowsEstablished, flowsNew)
	}
}

func validateDirection(errs *plan.FieldErrors, direction string) {
	if direction != "" {
		errs.OneOf("direction", "direction", direction, "both", directionIn, directionOut)
	}
}

// betweenParams are those of faults between the victim and another pod.
type betweenParams struct {
	packets
	Peer *int `json:"peer,omitempty"` // The ordinal of the other side.
}

// Other implements fault.Pair.
func (p betweenParams) Other() *int { return p.Peer }

// Validate implements fault.Validator.
func (p betweenParams) Validate(s plan.Setting) (errs plan.FieldErrors) {
	p.validate(&errs)
	switch {
	case p.Peer == nil:
		errs.Add("peer", "set it to the ordinal of the other side", "is missing for fault %q", s.Fault.Name)
	case *p.Peer == s.Fault.Ordinal:
		errs.Add("peer", "use another ordinal than the victim's", "%d is the victim itself", *p.Peer)
	default:
		s.Ordinal(&errs, "peer", *p.Peer)
	}
	return errs
}
