package chaosmesh

import (
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
)

// row is one action of a kind of experiment.
type row struct {
	kind, action string // Action "*" is every other action of the kind.
	fault        string // The fault that it becomes; Name is the one that Chaos Mesh carries out.
	// fields are the supported fields of its spec, beside those of common; an exclamation mark makes one required.
	// Every other field that is set is refused.
	fields string
	note   string // A note for the step.
	// read returns the faults for the victims and adds errors in the spec. If nil, the fault has no parameters.
	read    func(m manifest, victims []int) []plan.Fault
	refused string // The reason if it is refused; the other fields are then empty.
}

// rows returns the known actions. Every other kind is refused.
func rows() []row {
	const (
		files  = " volumePath path methods percent"
		byMesh = "by Chaos Mesh in the cluster"
		netem  = "it needs netem in the kernel of the nodes"
		faked  = "it changes what is read, and not whether or when, so no probe could show it"
		chaosd = "it needs chaosd on the machine, which nodes of a trial do not run; and the nodes of a kind cluster " +
			"share one clock"
		loss = "of all that the pod's node sends to other nodes"
	)
	return []row{
		{kind: "PodChaos", action: "container-kill", fault: "container-kill", fields: "containerNames!",
			read: manifest.containerKill},
		{kind: "PodChaos", action: "pod-failure", fault: Name, note: byMesh},
		{kind: "PodChaos", action: "pod-kill", fault: "pod-force-delete", fields: "gracePeriod",
			read: manifest.podKill},
		{kind: "NetworkChaos", action: "loss", fault: "packet-loss", fields: "loss! loss.loss", note: loss,
			read: manifest.packetLoss},
		{kind: "NetworkChaos", action: "netem", fault: "packet-loss", fields: "loss! loss.loss", note: loss,
			read: manifest.packetLoss},
		{kind: "NetworkChaos", action: "partition", fault: "pod-partition",
			fields: "target! direction partitionBehavior", read: manifest.podPartition},
		{kind: "NetworkChaos", action: "bandwidth", refused: netem},
		{kind: "NetworkChaos", action: "corrupt", refused: netem},
		{kind: "NetworkChaos", action: "delay", refused: netem},
		{kind: "NetworkChaos", action: "duplicate", refused: netem},
		{kind: "IOChaos", action: "fault", fault: Name, fields: "errno! containerNames" + files, note: byMesh,
			read: manifest.io},
		{kind: "IOChaos", action: "latency", fault: Name, fields: "delay! containerNames" + files, note: byMesh,
			read: manifest.io},
		{kind: "IOChaos", action: "attrOverride", refused: faked},
		{kind: "IOChaos", action: "mistake", refused: faked},
		{kind: "StressChaos", fault: Name, fields: "stressors! stressors.* containerNames", note: byMesh},
		{kind: "PhysicalMachineChaos", action: "network-loss", fault: "packet-loss", note: "of all devices",
			fields: "network-loss! network-loss.percent network-loss.device address", read: manifest.machineLoss},
		{kind: "PhysicalMachineChaos", action: "network-partition", fault: "node-partition", note: "of all devices",
			fields: "network-partition! network-partition.hostname network-partition.direction " +
				"network-partition.device address", read: manifest.machinePartition},
		{kind: "PhysicalMachineChaos", action: "process",
			fields: "process! process.process process.signal address", read: manifest.process},
		{kind: "PhysicalMachineChaos", action: "*", refused: chaosd},
	}
}

// common returns the fields that every action supports; Chaos Mesh itself sets the uid.
func common() []string { return []string{"action", "mode", "value", "selector", "duration", "uid"} }

// kinds returns the supported kinds, sorted.
func kinds() []string {
	all := []string{"Schedule", "Workflow"}
	for _, row := range rows() {
		all = append(all, row.kind)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// row returns the row of an experiment. It adds an error if the experiment is refused.
func (m manifest) row() (row, bool) {
	var actions []string
	action, refused := "", ""
	if f := specOf(m.Object).FieldByName("Action"); f.IsValid() {
		action = f.String()
	}
	for _, row := range rows() {
		switch {
		case row.kind != m.kind():
		case row.refused == "" && row.action == action:
			return row, true
		case row.refused == "":
			actions = append(actions, row.action)
		case row.action == action || row.action == "*" && action != "":
			refused = row.refused
		}
	}
	if refused == "" {
		m.errs.OneOf(m.path("spec.action"), "action", action, actions...)
	} else {
		m.add("spec.action", "known: "+strings.Join(actions, ", "), "%q cannot be carried out: %s", action, refused)
	}
	return row{}, false
}

// honoured refuses the fields of a spec, or of a struct in it, that are set but not supported, and reports whether all
// required ones are set.
func (m manifest) honoured(what, path string, object any, fields []string) bool {
	set := plan.SetFields(object)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		known := slices.Contains(fields, name) || slices.Contains(fields, name+"!") || slices.Contains(fields, "*")
		// A field with the value of its default does nothing either.
		text, isText := set[name].(string)
		if !known && !(isText && (text == "all" || strings.Trim(text, "0.") == "")) {
			m.add(path+"."+name, "leave it out", "is not carried out with %s", what)
		}
		var inner []string
		for _, field := range fields {
			if rest, ok := strings.CutPrefix(field, name+"."); ok {
				inner = append(inner, rest)
			}
		}
		if len(inner) > 0 {
			m.honoured(what, path+"."+name, set[name], inner)
		}
	}
	whole := true
	for _, field := range fields {
		if name, needed := strings.CutSuffix(field, "!"); needed && set[name] == nil {
			m.add(path+"."+name, "set it", "is missing for %s", what)
			whole = false
		}
	}
	return whole
}
