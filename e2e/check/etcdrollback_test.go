package check_test

import (
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// TestEtcdRollback judges what kubeadm says against where the saved database lies.
func TestEtcdRollback(t *testing.T) {
	const (
		live   = "/var/lib/etcd/member/snap/db"
		backup = "/etc/kubernetes/tmp/kubeadm-backup-etcd-1/etcd/member/snap/db"
		nested = "/var/lib/etcd/kubeadm-backup-etcd-1/etcd/member/snap/db"
	)
	success := []string{"[upgrade/etcd] Etcd data rollback successful"}
	for _, c := range []struct {
		name   string
		failed string // The error of kubeadm upgrade apply.
		data   *history.EtcdData
		want   check.Verdict
		says   string // In a finding, a reason or a note.
	}{
		{"kubeadm succeeds", "", nil, check.Pass, "rolled nothing back"},
		{"it fails, and nobody looked", "exit code 1", nil, check.Unknown, "etcd's data was not looked at"},
		{"it fails before etcd", "exit code 1", &history.EtcdData{Said: []string{"error: no room"}}, check.Pass,
			"error: no room"},
		{"the backup lies beside the data", "exit code 1", &history.EtcdData{Said: success, Log: "panic",
			Databases: map[string]string{live: "new", backup: "old", nested: "old"}}, check.Fail,
			"the backup was copied to " + nested + ", and " + live + ", which etcd reads, is not the one that was " +
				"saved. etcd is not healthy and said last: panic"},
		{"it was rolled back", "exit code 1", &history.EtcdData{Said: success,
			Databases: map[string]string{live: "old", backup: "old"}}, check.Pass, ""},
		{"it was rolled back, and etcd wrote", "exit code 1", &history.EtcdData{Said: success,
			Databases: map[string]string{live: "newer", backup: "old"}}, check.Unknown, "etcd may have written since"},
		{"no backup is seen", "exit code 1", &history.EtcdData{Said: success,
			Databases: map[string]string{live: "new"}}, check.Unknown, "its backup was not found"},
	} {
		p := historytest.UpgradePlan()
		p.Steps[0].Upgrade.At, p.Steps[0].During = "apply", []plan.Step{{
			Do: plan.ActionLoad, Commits: 1, Bound: p.Steps[0].Bound,
		}}
		for i := range p.Steps[1:] {
			p.Steps[i+1].N += 1
		}
		p.Steps[0].During[0].N = 2
		tr := historytest.New(p)
		tr.Applied(c.failed, c.data)
		r := check.Run(tr.History(), []check.Check{check.EtcdRollback()}).Results[0]
		text := strings.Join(append(r.Reasons, r.Notes...), "; ")
		for _, f := range r.Findings {
			text += f.Sentence
		}
		if r.Verdict != c.want || !strings.Contains(text, c.says) {
			t.Errorf("%s: %s, %s; want %s, %s", c.name, r.Verdict, text, c.want, c.says)
		}
	}
	if r := check.Run(historytest.Upgrade().History(), []check.Check{check.EtcdRollback()}); len(r.Results) != 0 {
		t.Errorf("it judges an upgrade that nothing hurts: %+v", r.Results)
	}
}
