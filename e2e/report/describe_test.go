package report

import (
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// TestFactsOfGroupsAndUpgradesAreDescribed: the proof of a finding says more than what kind of fact it is.
func TestFactsOfGroupsAndUpgradesAreDescribed(t *testing.T) {
	for want, e := range map[string]history.Event{
		"mysql-1 takes no writes, is ONLINE SECONDARY, has transactions 5ea7:1-9": {Member: &history.Member{
			Instance: "mysql-1", State: "ONLINE SECONDARY", Executed: "5ea7:1-9"}},
		"mysql-1 could not be asked for its state (no route)": {Member: &history.Member{Instance: "mysql-1",
			Error: "no route"}},
		"promoter: promote mysql-2, since mysql-0 is silent": {Promotion: &history.Promotion{
			Act: history.ActPromote, Instance: "mysql-2", Why: "mysql-0 is silent"}},
		"worker, after the trial: 1 thing that a fault can leave": {Residue: &history.Residue{Node: "worker",
			When: history.After, Things: []history.Thing{{}}}},
		"upgrade of worker to v1.37.0: drain ended (no room)": {Upgrade: &history.Upgrade{Node: "worker",
			Part: history.UpgradeDrain, To: "v1.37.0", End: true, Error: "no room"}},
		"etcd of control after kubeadm failed: is not healthy, 0 files": {EtcdData: &history.EtcdData{Node: "control"}},
		"kube-apiserver is v1.37.0": {Version: &history.Version{Component: history.ComponentAPIServer,
			Version: "v1.37.0"}},
		"step 3 has waited for: mysql-0 is mounted": {Await: &history.Await{Step: 3, What: "mysql-0 is mounted"}},
		"client 2: transaction 7, SERIALIZABLE, sent to mysql-0": {Op: &history.Op{Client: 2, Number: 7,
			Stage: history.StageInvoke, Instance: "mysql-0", Txn: &history.Txn{Level: "SERIALIZABLE"}}},
	} {
		if got := describe(&e); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestVersionsThatAreNotKnown are left out.
func TestVersionsThatAreNotKnown(t *testing.T) {
	run := Run{Versions: map[string]string{"kind": "v0.33.0", "mysql": ""}}
	got := ""
	for _, item := range About(Judged{Run: run, World: world.New(history.History{})}) {
		if item.Name == "versions" {
			got = item.Value
		}
	}
	if got != "kind v0.33.0" {
		t.Errorf("versions: %q", got)
	}
}
