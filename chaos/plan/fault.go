package plan

import "encoding/json"

// Fault is one planned fault. The victim is the node that runs the pod of Ordinal when the fault starts; within another
// fault, when that one started.
type Fault struct {
	Name     string   `json:"name"` // In the list of faults, for example "kubelet-kill".
	Ordinal  int      `json:"ordinal"`
	Hold     Duration `json:"hold"`               // How long the shown effect is left in place.
	Families []string `json:"families,omitempty"` // Network faults: "ipv4", "ipv6"; empty means both.
	CSI      *CSI     `json:"csi,omitempty"`      // Faults of a CSI driver: which call, and what happens to it.
	// Direction is which packets a network fault concerns, as seen from the victim: "in" are those that come to it,
	// "out" those that leave it; empty means both.
	Direction string `json:"direction,omitempty"`
	// Flows is which TCP connections a network fault cuts: those that were "established" when it began, or "new" ones;
	// empty means all, and every other packet as well.
	Flows   string `json:"flows,omitempty"`
	Reject  bool   `json:"reject,omitempty"`  // A network fault answers what it cuts with a reset, or says so by ICMP.
	Percent int    `json:"percent,omitempty"` // The share of packets that are lost, 1 to 99.
	Peer    *int   `json:"peer,omitempty"`    // The ordinal of the other side, of faults between two.
	// Delay is how much later every packet leaves, and Kbits how many thousand bits may leave in a second.
	Delay Duration `json:"delay,omitempty"`
	Kbits int      `json:"kbits,omitempty"`
	// Offset is by how much a clock is put forward, or back when it is negative.
	Offset Duration `json:"offset,omitempty"`
	// Container is the container of the victim's pod that is hurt, for faults that hurt one.
	Container string `json:"container,omitempty"`
	// Grace is the grace period of a deletion, in whole seconds; nil is the pod's own.
	Grace *Duration `json:"grace,omitempty"`
	// File is the file of the victim's volume that is damaged, for faults that damage one: a path with slashes,
	// relative to the directory that the pod is given, for example "data/seatrial/quiet.ibd". Such damage is declared:
	// a trial in which no check finds it shows nothing.
	File string `json:"file,omitempty"`
	// Manifest is the object of a fault that is left to Chaos Mesh, as JSON, with its pods by name.
	Manifest json.RawMessage `json:"manifest,omitempty"`
	// When has the act wait on the victim's node for a call of the CSI driver's node service for the victim's volume,
	// and follow it at once. Provoke are the steps, carried out once the node waits, that bring the call about.
	When    *Await `json:"when,omitempty"`
	Provoke []Step `json:"provoke,omitempty"`
	// During are steps carried out when the effect was shown, before the time of Hold begins.
	During []Step `json:"during,omitempty"`
	// Outlast leaves the fault in place until the one within which it is was shown to be gone. It is for what cannot
	// be healed before: a Node that was deleted is registered by its kubelet, which a partition keeps from it.
	Outlast bool `json:"outlast,omitempty"`
	// Life, when set, is how long the fault may stay in place when nobody heals it, in place of what follows from the
	// bounds. It is not part of a plan: tests set it, who wait for the undo that is armed.
	Life Duration `json:"-"`
}

// CSI is a fault point of a CSI driver: what happens to the calls of one method for the victim's volume, or for every.
type CSI struct {
	RPC   string   `json:"rpc"`             // The method's name, for example "NodeUnstageVolume".
	Act   string   `json:"act"`             // "fail", "delay", "hold", "late" or "lie", see CSIActs.
	Code  string   `json:"code,omitempty"`  // Of fail and late: the gRPC code's name, for example "Internal".
	Delay Duration `json:"delay,omitempty"` // Of delay.
	Times int      `json:"times,omitempty"` // How many calls; 0 is all of them.
	// Every has the point concern the calls for every volume, and not for the victim's alone.
	Every bool `json:"every,omitempty"`
}

// CSIActs returns what a fault point can do to a call: answer an error and do nothing; do it later; hold it until the
// fault is healed; do it and answer an error; answer success and do nothing.
func CSIActs() []string { return []string{"fail", "delay", "hold", "late", "lie"} }

// CSIRPCs returns the methods that a fault point can be at (CSI specification 1.11).
func CSIRPCs() []string {
	return []string{
		"ControllerExpandVolume", "ControllerPublishVolume", "ControllerUnpublishVolume", "CreateVolume",
		"DeleteVolume", "NodeExpandVolume", "NodePublishVolume", "NodeStageVolume", "NodeUnpublishVolume",
		"NodeUnstageVolume",
	}
}
