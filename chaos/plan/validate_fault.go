package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxPutOff is how long a node puts an act off that it has waited for: the effect must be shown within the limit of
// that, which is a minute.
const maxPutOff = 20 * time.Second

// MaxDepth is how many steps can be within each other.
const MaxDepth = 4

// tooDeep holds that steps are not within too many others.
func (v *validator) tooDeep(at string, in within, steps ...[]Step) bool {
	deep := in.steps >= MaxDepth && slices.ContainsFunc(steps, func(s []Step) bool { return len(s) > 0 })
	if deep {
		v.errs.add(at, "leave it out", "is within %d steps already", in.steps)
	}
	return deep
}

func (v *validator) fault(at string, f Fault, bound Duration, in within) {
	names := make([]string, len(v.caps.Faults))
	var known *FaultCaps
	for i := range v.caps.Faults {
		names[i] = v.caps.Faults[i].Name
		if names[i] == f.Name {
			known = &v.caps.Faults[i]
		}
	}
	if known == nil {
		v.errs.add(at+".name", oneOf(f.Name, names), "no fault %q", f.Name)
	} else {
		v.needs(at+".name", *known)
		v.csi(at+".csi", f, *known)
	}
	v.ordinal(at+".ordinal", f.Ordinal)
	switch {
	case f.Hold <= 0:
		v.errs.add(at+".hold", "use more than 0s", "%s is out of range", f.Hold)
	case f.Hold >= bound:
		v.errs.add(at+".hold", "hold it for less, or raise the bound", "%s does not fit into the step's bound of %s",
			f.Hold, bound)
	case known != nil && known.Longest > 0 && f.Hold > known.Longest:
		v.errs.add(at+".hold", fmt.Sprintf("hold it for at most %s", known.Longest),
			"the effect of fault %q ends by itself before %s are over", f.Name, f.Hold)
	}
	v.families(at+".families", f, known)
	v.network(at, f, known)
	v.foreign(at, f, known)
	v.when(at, f, known)
	v.outlast(at+".outlast", f, known, in)
	if v.tooDeep(at+".provoke", in, f.Provoke) || v.tooDeep(at+".during", in, f.During) {
		return
	}
	v.steps(at+".provoke", f.Provoke, in.fault())
	v.steps(at+".during", f.During, in.fault())
}

func (v *validator) families(at string, f Fault, known *FaultCaps) {
	if len(f.Families) > 0 && known != nil && !known.Families {
		v.errs.add(at, "leave it out", "fault %q cannot be limited to address families", f.Name)
	}
	allFamilies := []string{"ipv4", "ipv6"}
	for i, family := range f.Families {
		field := fmt.Sprintf("%s[%d]", at, i)
		if !slices.Contains(allFamilies, family) {
			v.errs.add(field, oneOf(family, allFamilies), "no address family %q", family)
		} else if slices.Contains(f.Families[:i], family) {
			v.errs.add(field, "leave it out", "%q is there twice", family)
		}
	}
}

func (v *validator) outlast(at string, f Fault, known *FaultCaps, in within) {
	switch {
	case !f.Outlast:
	case in.faults == 0:
		v.errs.add(at, "leave it out", "the step is within no fault that it could outlast")
	case known != nil && !known.Outlasts:
		v.errs.add(at, "leave it out", "fault %q can be healed before the one within which it is", f.Name)
	}
}

// when holds a fault's trigger against the rules: what the driver's node service does is seen on the victim's node, and
// only what is provoked after the node has begun to wait can be waited for.
func (v *validator) when(at string, f Fault, known *FaultCaps) {
	switch {
	case f.When == nil && len(f.Provoke) > 0:
		v.errs.add(at+".provoke", "leave it out, or set when", "nothing waits for what it brings about")
		return
	case f.When == nil:
		return
	case known != nil && !known.Triggers:
		v.errs.add(at+".when", "leave it out", "fault %q cannot wait on the node for a call", f.Name)
	case len(f.Provoke) == 0:
		v.errs.add(at+".provoke", "add the steps that bring the call about", "is missing beside when")
	}
	v.await(at+".when", *f.When, 1)
	if f.When.Delay.D() > maxPutOff {
		v.errs.add(at+".when.delay", fmt.Sprintf("use 0s to %s", maxPutOff), "%s is out of range on a node",
			f.When.Delay)
	}
	if f.When.Since != "" {
		v.errs.add(at+".when.since", "leave it out", "what came before the node began to wait does not count")
	}
	call := f.When.For == AwaitCSIBegin || f.When.For == AwaitCSIEnd
	switch {
	case !call:
		v.errs.add(at+".when.for", fmt.Sprintf("use %q or %q", AwaitCSIBegin, AwaitCSIEnd),
			"%q is not seen on the node", f.When.For)
	case !strings.HasPrefix(f.When.RPC, "Node"):
		v.errs.add(at+".when.rpc", "use a method of the node service", "%q is not called on the victim's node",
			f.When.RPC)
	case f.When.Ordinal != f.Ordinal:
		v.errs.add(at+".when.ordinal", fmt.Sprintf("use %d", f.Ordinal), "%d is not the victim's", f.When.Ordinal)
	}
}

func (v *validator) csi(at string, f Fault, known FaultCaps) {
	switch {
	case f.CSI == nil && known.CSI:
		v.errs.add(at, "set it", "is missing for fault %q", f.Name)
		return
	case f.CSI == nil:
		return
	case !known.CSI:
		v.errs.add(at, "leave it out", "fault %q is not one of a CSI driver", f.Name)
		return
	case !v.disk:
		v.errs.add(at, fmt.Sprintf("use workload.storage: %q", StorageSharedDisk),
			"the volumes have no CSI driver")
	}
	c := *f.CSI
	if !slices.Contains(CSIRPCs(), c.RPC) {
		v.errs.add(at+".rpc", oneOf(c.RPC, CSIRPCs()), "no method %q", c.RPC)
	}
	if !slices.Contains(CSIActs(), c.Act) {
		v.errs.add(at+".act", oneOf(c.Act, CSIActs()), "no act %q", c.Act)
	}
	fails := c.Act == "fail" || c.Act == "late"
	switch {
	case fails && !slices.Contains(codes(), c.Code):
		v.errs.add(at+".code", oneOf(c.Code, codes()), "no code %q", c.Code)
	case !fails && c.Code != "":
		v.errs.add(at+".code", "leave it out", "act %q answers no code of its own", c.Act)
	}
	if c.Act == "delay" {
		v.lasting(at+".delay", c.Delay)
	} else if c.Delay != 0 {
		v.errs.add(at+".delay", "leave it out", "act %q has no delay", c.Act)
	}
	v.within(at+".times", c.Times, 0, 1000)
}

// codes are the errors that a call can be answered with (google.golang.org/grpc/codes).
func codes() []string {
	return []string{
		"Aborted", "AlreadyExists", "Canceled", "DataLoss", "DeadlineExceeded", "FailedPrecondition", "Internal",
		"InvalidArgument", "NotFound", "OutOfRange", "PermissionDenied", "ResourceExhausted", "Unauthenticated",
		"Unavailable", "Unimplemented", "Unknown",
	}
}

func (v *validator) needs(at string, f FaultCaps) {
	for _, need := range f.Needs {
		if why, ok := v.caps.Cannot[need]; ok {
			v.errs.add(at, "choose another fault or another machine",
				"fault %q needs %q, which is not to be had here: %s", f.Name, need, why)
		}
	}
	if v.caps.Can == nil {
		return
	}
	for _, need := range f.Needs {
		if !slices.Contains(v.caps.Can, need) {
			v.errs.add(at, "choose another fault or another cluster", "fault %q needs %q, which this cluster cannot do",
				f.Name, need)
		}
	}
}
