package plan

import "time"

// Example returns a small plan whose first step is the fault, with what it cannot be without. Fill, when it is set,
// puts in what the fault wants beyond that.
func Example(caps FaultCaps, fill func(*Fault)) Plan {
	minute := Duration(time.Minute)
	f := &Fault{Name: caps.Name, Hold: Duration(10 * time.Second)}
	p := Plan{
		Schema: SchemaVersion, Scenario: "example", Seed: 1, Workers: 2,
		Workload: Workload{
			Name: "ledger", StatefulSet: "mysql", Replicas: 2, FileSystem: "ext4", VolumeMiB: 512, Clients: 2,
			Interval: Duration(50 * time.Millisecond), QuietRows: 1000,
		},
		Bounds: Bounds{Ready: 3 * minute, Settle: 2 * minute, BlindGap: minute / 12, MinOps: 50, MinAround: 5},
		Steps:  []Step{{N: 1, Do: ActionFault, Fault: f, Bound: 5 * minute}},
	}
	if caps.CSI {
		p.Workload.Storage, p.Workload.Fencing = StorageSharedDisk, "single"
		f.CSI = &CSI{RPC: "NodeStageVolume", Act: "fail", Code: "Internal", Times: 1}
	}
	if caps.File {
		f.File = "data/seatrial/quiet.ibd"
	}
	if caps.Network.Percent {
		f.Percent = 30
	}
	if caps.Network.Delay {
		f.Delay = Duration(100 * time.Millisecond)
	}
	if caps.Network.Kbits {
		f.Kbits = 1000
	}
	if caps.Offset {
		f.Offset = 60 * minute
	}
	if caps.Network.Peer {
		one := 1
		f.Peer = &one
	}
	if caps.Families {
		f.Families = []string{"ipv4", "ipv6"}
	}
	if fill != nil {
		fill(f)
	}
	return p
}
