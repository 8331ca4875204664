package plan

import (
	"fmt"
	"slices"
)

// NetworkCaps is which fields of a network fault a fault takes. Percent, Peer, Delay and Kbits must be set where they
// are taken.
type NetworkCaps struct {
	Direction bool
	Flows     bool
	Reject    bool
	Percent   bool
	Peer      bool
	Delay     bool
	Kbits     bool
}

// The directions and the flows of a network fault, beside the empty ones.
const (
	DirectionIn      = "in"
	DirectionOut     = "out"
	FlowsEstablished = "established"
	FlowsNew         = "new"
)

// Directions returns what Fault.Direction can be; "both" is as good as empty.
func Directions() []string { return []string{"both", DirectionIn, DirectionOut} }

// Flows returns what Fault.Flows can be; "all" is as good as empty.
func Flows() []string { return []string{"all", FlowsEstablished, FlowsNew} }

// NetworkCaps returns caps that take the fault's fields, for a plan that was legal when it was carried out.
func (f Fault) NetworkCaps() NetworkCaps {
	return NetworkCaps{Direction: true, Flows: true, Reject: true, Percent: f.Percent != 0, Peer: f.Peer != nil,
		Delay: f.Delay != 0, Kbits: f.Kbits != 0}
}

// network holds the fields of network faults against the rules. A fault that is not known takes any of them: its name
// is what is wrong then.
func (v *validator) network(at string, f Fault, known *FaultCaps) {
	takes := f.NetworkCaps()
	if known != nil {
		takes = known.Network
	}
	for _, field := range []struct {
		name       string
		set, taken bool
	}{
		{"direction", f.Direction != "", takes.Direction},
		{"flows", f.Flows != "", takes.Flows},
		{"reject", f.Reject, takes.Reject},
		{"percent", f.Percent != 0, takes.Percent},
		{"peer", f.Peer != nil, takes.Peer},
		{"delay", f.Delay != 0, takes.Delay},
		{"kbits", f.Kbits != 0, takes.Kbits},
	} {
		if field.set && !field.taken {
			v.errs.add(at+"."+field.name, "leave it out", "fault %q does not take it", f.Name)
		}
	}
	if f.Direction != "" && !slices.Contains(Directions(), f.Direction) {
		v.errs.add(at+".direction", oneOf(f.Direction, Directions()), "no direction %q", f.Direction)
	}
	if f.Flows != "" && !slices.Contains(Flows(), f.Flows) {
		v.errs.add(at+".flows", oneOf(f.Flows, Flows()), "no flows %q", f.Flows)
	}
	if takes.Percent {
		v.within(at+".percent", f.Percent, 1, 99)
	}
	v.line(at, f, takes)
	switch {
	case !takes.Peer:
	case f.Peer == nil:
		v.errs.add(at+".peer", "set it to the ordinal of the other side", "is missing for fault %q", f.Name)
	case *f.Peer == f.Ordinal:
		v.errs.add(at+".peer", "use another ordinal than the victim's", "%d is the victim itself", *f.Peer)
	default:
		v.ordinal(at+".peer", *f.Peer)
	}
}

// networkNote says how a network fault differs from the whole of it.
func (p Plan) networkNote(f Fault) string {
	note := ""
	if f.Percent != 0 {
		note += fmt.Sprintf(", %d %% of the packets", f.Percent)
	}
	if f.Delay != 0 {
		note += ", by " + f.Delay.String()
	}
	if f.Kbits != 0 {
		note += fmt.Sprintf(", to %d kbit/s", f.Kbits)
	}
	if f.Offset != 0 {
		note += ", by " + f.Offset.String()
	}
	if f.Peer != nil {
		note += ", from " + p.pod(*f.Peer)
	}
	switch f.Direction {
	case DirectionIn:
		note += ", inbound only"
	case DirectionOut:
		note += ", outbound only"
	}
	switch f.Flows {
	case FlowsEstablished:
		note += ", established connections only"
	case FlowsNew:
		note += ", new connections only"
	}
	if f.Reject {
		note += ", rejected"
	}
	return note
}
