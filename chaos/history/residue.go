package history

// When says at which end of a trial it was looked for residue.
type When string

// A trial is looked over before anything is hurt, with its workload in place, and after everything was healed and had
// settled. When there are several looks of one kind at one place, the last one counts.
const (
	Before When = "before"
	After  When = "after"
)

// Residue is what there was at one look, on one node or of the API, of the things that a fault can leave behind. It is
// not all that there is: the rule is in chaos/nodeagent/leaks.
type Residue struct {
	When   When    `json:"when"`
	Run    string  `json:"run"`            // The trial that looks.
	Node   string  `json:"node,omitempty"` // Empty for objects of the API.
	Things []Thing `json:"things"`
	Blind  []Blind `json:"blind,omitempty"`
	Error  string  `json:"error,omitempty"` // Why nothing could be looked at; the rest is void then.
}

// Thing is one thing that a fault can leave. Two are the same when Class, Name and Is are.
type Thing struct {
	Class string `json:"class"`
	Name  string `json:"name"`
	Is    string `json:"is,omitempty"` // Its state, as far as another state would be another thing.
	// Run and Step are the owner's, where the thing bears the mark of one; Run is empty otherwise.
	Run  string `json:"run,omitempty"`
	Step int    `json:"step,omitempty"`
}

// The classes of things.
const (
	ThingTable      = "nftables table"
	ThingRule       = "iptables rule"
	ThingRoute      = "route"
	ThingRouteRule  = "routing rule"
	ThingQdisc      = "qdisc"
	ThingMount      = "mount"
	ThingLoop       = "loop device"
	ThingProcess    = "process"
	ThingUnit       = "systemd unit"
	ThingFile       = "file"
	ThingNode       = "node"
	ThingTaint      = "taint"
	ThingCordon     = "cordon"
	ThingLabel      = "label"
	ThingAnnotation = "annotation"
	ThingFinalizer  = "finalizer"
	ThingQuota      = "quota"
	ThingExperiment = "Chaos Mesh experiment"
	ThingAttachment = "volume attachment"
	ThingVolume     = "volume"
)

// Blind is a class of things that could not be looked at.
type Blind struct {
	Class string `json:"class"`
	Why   string `json:"why"`
}

// key is what makes two things the same.
func (t Thing) key() Thing { return Thing{Class: t.Class, Name: t.Name, Is: t.Is} }

// String names the thing, as "qdisc netem on eth0" or "process 214 kubelet, which is stopped".
func (t Thing) String() string {
	if t.Is == "" {
		return t.Class + " " + t.Name
	}
	return t.Class + " " + t.Name + " (" + t.Is + ")"
}

// Left returns the things of a look that were not there at the one before, in their order. One that was there once and
// is there twice is left once.
func Left(before, after []Thing) []Thing {
	had := map[Thing]int{}
	for _, t := range before {
		had[t.key()]++
	}
	var left []Thing
	for _, t := range after {
		if had[t.key()] > 0 {
			had[t.key()]--
			continue
		}
		left = append(left, t)
	}
	return left
}
