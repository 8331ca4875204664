package faulttest_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// replaceEtcd does what kubeadm upgrade does to etcd, three minutes from now; the new one raises the version of the
// data after 2 s if it is a later one.
func (w *world) replaceEtcd(later int) {
	time.Sleep(3 * time.Minute)
	w.mu.Lock()
	w.static("etcd").gone = true
	w.mu.Unlock()
	time.Sleep(3 * time.Second)
	w.mu.Lock()
	etcd := w.static("etcd")
	etcd.start(etcd.args)
	w.mu.Unlock()
	time.Sleep(2 * time.Second)
	w.mu.Lock()
	w.raised = later
	w.mu.Unlock()
}

// TestEtcdIsFrozenAfterItsUpgrade holds that the etcd that comes up next is frozen, once it has raised the version of
// the data, that the API server is frozen no longer than until then, and that nothing stays frozen.
func TestEtcdIsFrozenAfterItsUpgrade(t *testing.T) {
	for name, later := range map[string]int{"a later minor": 1, "the same minor": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				b := w.bench(t, "etcd-freeze")
				b.Spec.Params = plan.Params{"upgraded": true}
				defs := faultsOf("freeze")
				def := defs[slices.IndexFunc(defs, func(d fault.Definition) bool { return d.Name == "etcd-freeze" })]
				go w.replaceEtcd(later)
				old := w.static("etcd").pid
				r, err := faulttest.Run(t.Context(), def, b, func(f history.Fault) {
					w.mu.Lock()
					defer w.mu.Unlock()
					etcd, api := w.static("etcd"), w.static("kube-apiserver")
					if f.Stage == history.StageConfirmed && (!etcd.frozen || etcd.pid == old || api.frozen) {
						t.Errorf("etcd %d (before: %d) is frozen: %t; API server: %t", etcd.pid, old, etcd.frozen,
							api.frozen)
					}
				})
				switch {
				case later == 0 && (err == nil || !strings.Contains(err.Error(), "to raise the version of its data")):
					t.Errorf("%v", err)
				case later > 0 && err != nil:
					t.Error(err)
				case later > 0 && !slices.Contains(r.Stages(), history.StageConfirmedHealed):
					t.Errorf("stages %q", r.Stages())
				}
				if w.static("etcd").frozen || w.static("kube-apiserver").frozen {
					t.Error("something is frozen at the end")
				}
			})
		})
	}
}
