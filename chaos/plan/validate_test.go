package plan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/plan"
)

func caps() plan.Caps {
	return plan.Caps{
		Faults: []plan.FaultCaps{
			{Name: "kubelet-kill", Needs: []string{"systemd"}},
			{Name: "node-partition", Needs: []string{"nftables", "systemd"}, Check: plan.Names("families")},
			{Name: "node-reboot", Needs: []string{"power"}},
		},
		Workloads: []string{"ledger"},
	}
}

// legal is a plan with one step of each action.
func legal() plan.Plan {
	three := 3
	one := 1
	second := plan.Duration(time.Second)
	minute := plan.Duration(time.Minute)
	fault := &plan.Fault{
		Name:    "node-partition",
		Ordinal: 2,
		Hold:    second,
		Params:  plan.Params{"families": []any{"ipv4"}},
	}
	return plan.Plan{
		Schema: plan.SchemaVersion, Scenario: "made-up", Seed: 7, Workers: 2,
		Workload: plan.Workload{Name: "ledger", StatefulSet: "mysql", Replicas: 3, FileSystem: "ext4", VolumeMiB: 256,
			Clients: 2, Interval: second, QuietRows: 10},
		Bounds: plan.Bounds{Ready: minute, Settle: minute, BlindGap: second, MinOps: 1, MinAround: 1},
		Steps: []plan.Step{
			{N: 1, Do: plan.ActionLoad, Commits: 1, Bound: minute},
			{N: 2, Do: plan.ActionChecksum, Label: "before", Bound: minute},
			{N: 3, Do: plan.ActionFault, Fault: fault, Bound: minute},
			{N: 4, Do: plan.ActionScale, Replicas: &one, Bound: minute},
			{N: 5, Do: plan.ActionScale, Replicas: &three, Bound: minute},
			{N: 6, Do: plan.ActionTamper, Tamper: &plan.Tamper{Kind: "delete-row", Ordinal: 2}, Bound: minute},
		},
	}
}

func TestLegalPlanHasNoErrors(t *testing.T) {
	p := legal()
	if err := p.Validate(caps()); err != nil {
		t.Fatal(err)
	}
	exec(&p, 2, "mysql", "true")
	if err := p.Validate(caps()); err != nil {
		t.Fatal(err)
	}
}

// mistake is a change that makes a legal plan illegal, and what must be said of it.
type mistake struct {
	name   string
	change func(*plan.Plan)
	want   string
}

func mistakes() []mistake {
	return []mistake{
		{"schema", func(p *plan.Plan) { p.Schema = 0 }, "schema: 0 is not known; use 1"},
		{"scenario", func(p *plan.Plan) { p.Scenario = "../x" },
			`scenario: "../x" is not a name; use lower-case`},
		{"zones without disks", func(p *plan.Plan) { p.Workload.Zones = 2 },
			`workload.zones: storage "local" has no zones; leave it out`},
		{"empty zones", func(p *plan.Plan) {
			p.Workload.Storage, p.Workload.Fencing, p.Workload.Zones = plan.StorageSharedDisk, "single", 3
		}, "workload.zones: 3 is out of range; use 0 to 2"},
		{"local volumes that kubelets attach", func(p *plan.Plan) { p.Workload.Attacher = plan.AttacherKubelet },
			`workload.attacher: storage "local" needs no attach; leave it out`},
		{"no such attacher", func(p *plan.Plan) {
			p.Workload.Storage, p.Workload.Fencing, p.Workload.Attacher = plan.StorageSharedDisk, "single", "kubelets"
		}, `workload.attacher: no attacher "kubelets"; did you mean "kubelet"?`},
		{"nothing to attach", func(p *plan.Plan) {
			p.Workload.Storage, p.Workload.Fencing = plan.StorageSharedDisk, plan.FencingUnattached
			p.Workload.Attacher = plan.AttacherKubelet
		}, `workload.attacher: fencing "unattached" attaches nothing; leave it out`},
		{"kubelets attach no new volumes", func(p *plan.Plan) {
			p.Workload.Storage, p.Workload.Fencing, p.Workload.Attacher = plan.StorageSharedDisk, "single", "kubelet"
			p.Workload.WhenScaled = plan.PolicyDelete
		}, "workload.attacher: no volume is made for a second claim; leave it out"},
		{"kubelets publish by themselves", func(p *plan.Plan) {
			p.Workload.Storage, p.Workload.Fencing, p.Workload.Attacher = plan.StorageSharedDisk, "single", "kubelet"
			at := slices.IndexFunc(p.Steps, func(s plan.Step) bool { return s.Fault != nil })
			p.Steps[at].Fault.During = []plan.Step{{Do: plan.ActionAwait, Bound: plan.Duration(time.Minute),
				Await: &plan.Await{For: plan.AwaitCSIBegin, RPC: "NodePublishVolume"}}}
			plan.Number(p.Steps)
		}, `steps[2].fault.during[0].await.rpc: no method of a volume that a kubelet attaches "NodePublishVolume"`},
		{"zones of kubelets", func(p *plan.Plan) {
			p.Workload.Storage, p.Workload.Fencing, p.Workload.Attacher = plan.StorageSharedDisk, "single", "kubelet"
			p.Workload.Zones = 2
		}, "workload.zones: volumes that kubelets attach are in no zone; leave it out"},
		{"workers", func(p *plan.Plan) { p.Workers = 0 }, "workers: 0 is out of range; use 1 to 64"},
		{"workload", func(p *plan.Plan) { p.Workload.Name = "leger" },
			`workload.name: no workload "leger"; did you mean "ledger"?`},
		{"stateful set", func(p *plan.Plan) { p.Workload.StatefulSet = "" },
			`workload.statefulSet: "" is not a name`},
		{"replicas", func(p *plan.Plan) { p.Workload.Replicas = -1 },
			"workload.replicas: -1 is out of range; use 1 to 64"},
		{"file system", func(p *plan.Plan) { p.Workload.FileSystem = "zfs" },
			`workload.fileSystem: no file system "zfs"; did you mean "xfs"?`},
		{"another file system", func(p *plan.Plan) { p.Workload.FileSystem = "ntfs" },
			`workload.fileSystem: no file system "ntfs"; known: ext4, xfs`},
		{"clients", func(p *plan.Plan) { p.Workload.Clients = 0 }, "workload.clients: 0 is out of range"},
		{"transactions of one", func(p *plan.Plan) { p.Workload.Transactions = 1 },
			"workload.transactions: 1 is out of range; use 2 to 256"},
		{"transactions of a group", func(p *plan.Plan) { p.Workload.Transactions, p.Workload.Topology = 2, "async" },
			`workload.transactions: topology "async" promises nothing of it; these do: group-single, semisync, ` +
				"single; leave it out"},
		{"registers of one", func(p *plan.Plan) { p.Workload.Registers = 1 },
			"workload.registers: 1 is out of range; use 2 to 8"},
		{"registers of a group", func(p *plan.Plan) { p.Workload.Registers, p.Workload.Topology = 2, "group-multi" },
			`workload.registers: topology "group-multi" promises nothing of it; these do: single; leave it out`},
		{"transfers of copies", func(p *plan.Plan) { p.Workload.Transfers, p.Workload.Replicated = 2, true },
			"workload.transfers: is for databases that are not copies; leave it out"},
		{"transfers that may be lost", func(p *plan.Plan) {
			never := 0
			p.Workload.Transfers, p.Workload.SyncBinlog = 2, &never
		}, "workload.transfers: needs a database that keeps what it acknowledged; leave it out"},
		{"row of many writers", func(p *plan.Plan) { p.Workload.Topology = "group-multi" },
			`steps[5].tamper.kind: "delete-row": topology "group-multi" has no replicas to delete it on`},
		{"write without registers", func(p *plan.Plan) { p.Steps[5].Tamper.Kind = "lose-write" },
			`steps[5].tamper.kind: "lose-write": there are no registers; set workload.registers`},
		{"money without accounts", func(p *plan.Plan) { p.Steps[5].Tamper.Kind = "lose-money" },
			`steps[5].tamper.kind: "lose-money": there are no accounts; set workload.transfers`},
		{"append without lists", func(p *plan.Plan) { p.Steps[5].Tamper.Kind = "lose-append" },
			`steps[5].tamper.kind: "lose-append": without transactions there are no lists`},
		{"second of many writers", func(p *plan.Plan) { p.Steps[5].Tamper.Kind = "second-writer" },
			`steps[5].tamper.kind: "second-writer": each instance takes writes; set another workload.topology`},
		{"binary log of no copy", func(p *plan.Plan) { p.Steps[5].Tamper.Kind = "lose-log" },
			`steps[5].tamper.kind: "lose-log": nothing is restored by binary logs; set workload.replicated`},
		{"create a user without semi-sync", func(p *plan.Plan) { p.Steps[5].Tamper.Kind = "create-user" },
			`steps[5].tamper.kind: "create-user": nothing waits for a replica; set workload.topology to semisync`},
		{"failover of one", func(p *plan.Plan) { p.Workload.ManualFailover = true },
			`workload.manualFailover: topology "single" has no promoter that fails over; leave it out`},
		{"interval", func(p *plan.Plan) { p.Workload.Interval = -1 },
			"workload.interval: -1ns is out of range"},
		{"rows", func(p *plan.Plan) { p.Workload.QuietRows = -1 }, "workload.quietRows: -1 is out of range"},
		{"volume of a database", func(p *plan.Plan) { p.Workload.VolumeMiB = 199 },
			"workload.volumeMiB: 199 is out of range; use 200 to 1048576"},
		{"volume of xfs", func(p *plan.Plan) { p.Workload.FileSystem, p.Workload.VolumeMiB = "xfs", 299 },
			"workload.volumeMiB: 299 is out of range; use 300 to 1048576"},
		{"bound", func(p *plan.Plan) { p.Bounds.Ready = 0 },
			"bounds.ready: 0s is out of range; use more than 0s"},
		{"ops", func(p *plan.Plan) { p.Bounds.MinOps = 0 }, "bounds.minOps: 0 is out of range"},
		{"no steps", func(p *plan.Plan) { p.Steps = nil }, "steps: 0 steps; use 1 to 1000 steps"},
		{"too many steps", func(p *plan.Plan) { p.Steps = make([]plan.Step, 1001) },
			"steps: 1001 steps; use 1 to 1000"},
		{"number", func(p *plan.Plan) { p.Steps[1].N = 7 }, "steps[1].n: 7 is out of order; use 2"},
		{"action", func(p *plan.Plan) { p.Steps[0].Do = "laod" },
			`steps[0].do: no action "laod"; did you mean "load"?`},
	}
}

func mistakesInSteps() []mistake {
	zero, many := 0, 65
	return []mistake{
		{"commits", func(p *plan.Plan) { p.Steps[0].Commits = -1 }, "steps[0].commits: -1 is out of range"},
		{"label", func(p *plan.Plan) { p.Steps[1].Label = "a b" }, `steps[1].label: "a b" is not a name`},
		{"foreign field", func(p *plan.Plan) { p.Steps[1].Commits = 4 },
			`steps[1].commits: is set in a "checksum" step; leave it out, or use do: "load"`},
		{"missing fault", func(p *plan.Plan) { p.Steps[2].Fault = nil },
			`steps[2].fault: is missing in a "fault" step; set it`},
		{"unknown fault", func(p *plan.Plan) { p.Steps[2].Fault.Name = "node-partion" },
			`steps[2].fault.name: no fault "node-partion"; did you mean "node-partition"?`},
		{"far from any fault", func(p *plan.Plan) { p.Steps[2].Fault.Name = "earthquake" },
			`steps[2].fault.name: no fault "earthquake"; known: kubelet-kill, node-partition, node-reboot`},
		{"ordinal", func(p *plan.Plan) { p.Steps[2].Fault.Ordinal = 3 },
			"steps[2].fault.ordinal: 3 is out of range; use 0 to 2, with 3 replicas at this step"},
		{"ordinal scaled away", func(p *plan.Plan) { p.Steps = append(p.Steps[:4:4], p.Steps[5]); p.Steps[4].N = 5 },
			"steps[4].tamper.ordinal: 2 is out of range; use 0 to 0, with 1 replica at this step"},
		{"hold", func(p *plan.Plan) { p.Steps[2].Fault.Hold = 0 },
			"steps[2].fault.hold: 0s is out of range; use more than 0s"},
		{"hold over bound", func(p *plan.Plan) { p.Steps[2].Fault.Hold = p.Steps[2].Bound },
			"steps[2].fault.hold: 1m0s does not fit into the step's bound of 1m0s"},
		{"unknown parameter", func(p *plan.Plan) { p.Steps[2].Fault.Params["famlies"] = true },
			`steps[2].fault.famlies: fault "node-partition" does not take it; did you mean "families"?`},
		{"no families", func(p *plan.Plan) { p.Steps[2].Fault.Name = "kubelet-kill" },
			`steps[2].fault.families: fault "kubelet-kill" does not take it; leave it out`},
		{"scale", func(p *plan.Plan) { p.Steps[3].Replicas = &many },
			"steps[3].replicas: 65 is out of range; use 0 to 64"},
		{"scale missing", func(p *plan.Plan) { p.Steps[3].Replicas = nil }, "steps[3].replicas: is missing"},
		{"scale to the same", func(p *plan.Plan) { *p.Steps[3].Replicas = 3 },
			"steps[3].replicas: there are 3 replicas already; use another number"},
		{"ordinal of none", func(p *plan.Plan) { p.Steps[4].Replicas = &zero },
			"steps[5].tamper.ordinal: there is no pod at this step; scale up before it"},
		{"program of a pod that is not there", func(p *plan.Plan) { exec(p, 3, "", "true") },
			"steps[5].exec.ordinal: 3 is out of range; use 0 to 2"},
		{"no program", func(p *plan.Plan) { exec(p, 0, "") }, "steps[5].exec.command: is missing; give a program"},
		{"program without a name", func(p *plan.Plan) { exec(p, 0, "", "") }, "steps[5].exec.command: is missing"},
		{"argument with a zero byte", func(p *plan.Plan) { exec(p, 0, "", "sh", "a\x00") },
			"steps[5].exec.command[1]: 2 bytes, at most"},
		{"long refusal", func(p *plan.Plan) {
			exec(p, 0, "", "true")
			p.Steps[5].Exec.Refused = strings.Repeat("no ", 1000)
		}, "steps[5].exec.refused: 3000 bytes, at most"},
		{"container", func(p *plan.Plan) { exec(p, 0, "My SQL", "true") },
			`steps[5].exec.container: "My SQL" is not a name`},
		{"tamper", func(p *plan.Plan) { p.Steps[5].Tamper.Kind = "drop" },
			`steps[5].tamper.kind: no tampering "drop"`},
	}
}

// exec replaces the last step by a program in a pod.
func exec(p *plan.Plan, ordinal int, container string, command ...string) {
	p.Steps[5].Do, p.Steps[5].Tamper = plan.ActionExec, nil
	p.Steps[5].Exec = &plan.Exec{Ordinal: ordinal, Container: container, Command: command}
}

func TestIllegalPlansNameFieldAndFix(t *testing.T) {
	for _, tc := range append(mistakes(), mistakesInSteps()...) {
		t.Run(tc.name, func(t *testing.T) {
			p := legal()
			tc.change(&p)
			err := p.Validate(caps())
			if err == nil {
				t.Fatal("passes")
			}
			if !strings.Contains(err.Error(), "\n  "+tc.want) {
				t.Errorf("got:\n%v\nwant it to have %q", err, tc.want)
			}
			var wrong plan.FieldErrors
			if !errors.As(err, &wrong) || !strings.Contains(wrong[0].Detail, "; ") {
				t.Errorf("no field error with a fix in %v", err)
			}
		})
	}
}

// TestAMistakeIsToldOnce, without what follows from it.
func TestAMistakeIsToldOnce(t *testing.T) {
	shared := func(p *plan.Plan) { p.Workload.Storage, p.Workload.Fencing = plan.StorageSharedDisk, "single" }
	for name, change := range map[string]func(p *plan.Plan){
		"workload.topology": func(p *plan.Plan) {
			p.Workload.Topology, p.Workload.Replicas, p.Workload.Transfers = "ring", 2, 2
		},
		"workers": func(p *plan.Plan) {
			shared(p)
			p.Workers, p.Workload.Zones = -1, 2
		},
		"workload.replicas": func(p *plan.Plan) { p.Workload.Topology, p.Workload.Replicas = plan.TopologyAsync, -1 },
	} {
		p := legal()
		change(&p)
		var list plan.FieldErrors
		if err := p.Validate(caps()); !errors.As(err, &list) || len(list) != 1 || list[0].Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNeedsAreHeldAgainstTheCluster(t *testing.T) {
	c := caps()
	c.Cannot = map[string]string{"nftables": "no such module", "systemd": "it runs OpenRC", "odd": "nobody needs it"}
	err := legal().Validate(c)
	var list plan.FieldErrors
	if !errors.As(err, &list) || len(list) != 2 {
		t.Fatalf("got %v, want two errors", err)
	}
	want := `steps[2].fault.name: fault "node-partition" needs "nftables", which is not to be had here: ` +
		"no such module; choose another fault or another machine"
	if got := list[0].Field + ": " + list[0].Detail; got != want {
		t.Errorf("got  %s\nwant %s", list[0], want)
	}
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{
		"foo": "", "ntfs": "", "pdo": "pod", "psd": "pod", "xfs3": "xfs", "kubelte-kil": "kubelet-kill",
		"kubelt-klii": "kubelet-kill", "kublt-klll": "kubelet-kill", "kbl-klll": "", "": "",
	} {
		if got, _ := plan.Nearest(name, []string{"boot", "xfs", "pod", "kubelet-kill"}); got != want {
			t.Errorf("%q suggests %q, not %q", name, got, want)
		}
	}
}

func TestNearestNeverSuggestsWhatIsFar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		if near, ok := plan.Nearest(name, []string{"kubelet-kill"}); ok && len(name) > len(near)+5 {
			t.Fatalf("%q suggests %q", name, near)
		}
		if near, ok := plan.Nearest(name, []string{"zzzzzzzzz", name}); !ok || near != name {
			t.Fatalf("%q is not nearest to itself: %q", name, near)
		}
	})
}
