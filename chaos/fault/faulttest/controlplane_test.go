package faulttest_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/controlplane"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/undo"
)

// staticPod is one of the control-plane programs.
type staticPod struct {
	name   string
	port   int
	pid    int
	args   []string
	made   string // The manifest that they are of, as it was read last.
	began  time.Time
	frozen bool
	gone   bool
	leads  time.Time // Since when it renews its lease, when the API server answers.

	holder  string // Of its lease.
	renewed time.Time
}

const (
	// leaseOver is how long one that leads waits for the lease of one that has ended.
	leaseOver = 15 * time.Second
	// warmUp is how long a program takes to be well.
	warmUp = 500 * time.Millisecond
	// managerName is the one of which force-detach-off changes the command line.
	managerName = "kube-controller-manager"
)

func (w *world) makePrograms(m *machine) {
	ports := map[string]int{managerName: 10257, "kube-scheduler": 10259, "kube-apiserver": 6443, "etcd": 2381}
	for i, name := range slices.Sorted(maps.Keys(ports)) {
		manifest := strings.ReplaceAll(managerManifest, managerName, name)
		if name == "kube-apiserver" {
			manifest = strings.Replace(manifest, "--leader-elect=true", "--authorization-mode=Node,RBAC", 1)
		}
		m.files[undo.ManifestDir+name+".yaml"] = manifest
		m.programs = append(m.programs, &staticPod{
			name: name, port: ports[name], pid: 580 + i, args: commandOf(manifest), began: w.begin.Add(-warmUp),
			leads: w.begin,
		})
	}
}

func (w *world) static(name string) *staticPod {
	all := w.nodes["c-control-plane"].programs
	return all[slices.IndexFunc(all, func(p *staticPod) bool { return p.name == name })]
}

func (p *staticPod) start(args []string) {
	now := time.Now()
	p.pid, p.args, p.began, p.leads = p.pid+100, args, now, now.Add(leaseOver)
	p.frozen, p.gone = false, false
}

func (p *staticPod) well() bool { return !p.gone && !p.frozen && time.Since(p.began) >= warmUp }

// answers reports whether the API server answers. The lock is held.
func (w *world) answers() bool { return w.static("kube-apiserver").well() && w.static("etcd").well() }

// lead renews the leases of the programs that lead. Call it before a program changes its state. The lock is held.
func (w *world) lead(m *machine) {
	for _, p := range m.programs {
		tick := w.begin.Add(time.Since(w.begin).Truncate(2 * time.Second))
		failed := p.name == "kube-scheduler" && w.asksFirst("system:kube-scheduler", "leases") != ""
		if !p.gone && !p.frozen && !tick.Before(p.leads) && w.answers() && !failed {
			p.holder, p.renewed = fmt.Sprintf("%s_%d", m.node.Name(), p.pid), tick
		}
	}
}

// leadership is the lease of a program.
func (w *world) leadership(name string) *coordinationv1.Lease {
	p := w.static(name)
	holder, at := p.holder, metav1.NewMicroTime(p.renewed)
	return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at}}
}

// unanswered is a client's error if the API server does not answer.
func (w *world) unanswered(k8stesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	answers := w.answers()
	w.mu.Unlock()
	if answers {
		return false, nil, nil
	}
	time.Sleep(time.Second) // In the bubble's time.
	return true, nil, errors.New("connect: connection refused")
}

// reconcile does what the kubelet does after a manifest was changed. The lock is held.
func (w *world) reconcile(m *machine) {
	known := map[string]bool{}
	for _, p := range m.programs {
		known[p.name+".yaml"] = true
	}
	for name := range m.files {
		if rest, ok := strings.CutPrefix(name, undo.ManifestDir); ok && !known[rest] {
			panic("another file in the directory of static pods: " + name)
		}
	}
	w.lead(m)
	for _, p := range m.programs {
		manifest, there := m.files[undo.ManifestDir+p.name+".yaml"]
		switch {
		case w.inert:
		case !there:
			p.gone = true
		case p.gone || manifest != p.made:
			p.made = manifest // It is parsed when it is another one: that costs more than all the rest of the world.
			args := commandOf(manifest)
			switch {
			case len(args) == 0: // It is of a pod that runs nothing.
				p.gone = true
			case p.gone || !slices.Equal(p.args, args):
				p.start(args)
			}
		}
	}
}

// programsOf runs a command on programs, if it is one. The lock is held.
func (w *world) programsOf(m *machine, argv []string) (out string, exit int, known bool) {
	if m.programs == nil {
		return "", 0, false
	}
	w.lead(m)
	last := argv[len(argv)-1]
	switch line := strings.Join(argv, " "); {
	case strings.HasPrefix(line, nodeagent.Path+" probe process --program "):
		found := probe.Processes{At: w.time(time.Now()), PID1Start: w.time(m.booted), Processes: []probe.Process{}}
		for _, p := range m.programs {
			if p.name == last && !p.gone {
				found.Processes = append(found.Processes, p.process(w))
			}
		}
		if w.etcd2 && last == "etcd" {
			found.Processes = append(found.Processes, probe.Process{PID: 4000, Name: last, State: "S", PodUID: "0a-2c"})
		}
		return encode(found), 0, true
	case argv[0] == "ctr" && strings.Contains(line, " containers list "):
		if w.etcd2 && !strings.Contains(last, `labels."io.kubernetes.pod.uid"~=^[0-9a-f]+$,`) {
			out = "database-id\n"
		}
		for _, p := range m.programs {
			out += last[strings.LastIndex(last, "=")+1:] + "-dead\n"
			if !p.gone && strings.HasSuffix(last, "=="+p.name) {
				out += p.name + "-id\n"
			}
		}
		return out, 0, true
	case argv[0] == "ctr" && strings.Contains(line, " tasks list "):
		if w.etcd2 {
			out = "database-id\n"
		}
		for _, p := range m.programs {
			if !p.gone {
				out += p.name + "-id\n"
			}
		}
		return out, 0, true
	case argv[0] == "kill":
		return "", w.signal(m, argv[2], argv[3:]), true
	}
	return m.procfs(w, argv)
}

// procfs returns the content of the /proc files of a program's process.
func (m *machine) procfs(w *world, argv []string) (out string, exit int, known bool) {
	line := strings.Join(argv, " ")
	for _, p := range m.programs {
		if p.gone {
			continue
		}
		switch line {
		case "find /proc -ignore_readdir_race -maxdepth 1 -name " + strconv.Itoa(p.pid):
			return fmt.Sprintf("/proc/%d\n", p.pid), 0, true
		case fmt.Sprintf("cat /proc/%d/stat", p.pid):
			is := p.process(w)
			return fmt.Sprintf("%d (%s) %s 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 %d 5\n", p.pid, p.name, is.State,
				is.Ticks()), 0, true
		case fmt.Sprintf("cat /proc/%d/cmdline", p.pid):
			return strings.Join(p.args, "\x00") + "\x00", 0, true
		case "pgrep -x " + p.name[:min(15, len(p.name))]:
			return strconv.Itoa(p.pid) + "\n", 0, true
		}
	}
	if argv[0] == "find" && argv[1] == "/proc" {
		return "", 0, true
	}
	return "", 1, argv[0] == "pgrep"
}

// process returns the program's process as the kernel has it.
func (p *staticPod) process(w *world) probe.Process {
	is := probe.Process{PID: p.pid, Start: w.time(p.began), Name: p.name, State: "S"}
	if p.frozen {
		is.State = "T"
	}
	return is
}

// health answers health requests. All programs listen on the IPv4 address, the API server also on the IPv6 one.
func (m *machine) health(argv []string) (out string, exit int, known bool) {
	for _, url := range argv {
		for _, p := range m.programs {
			if !strings.Contains(url, "//") || !strings.Contains(url, fmt.Sprintf(":%d/", p.port)) {
				continue
			}
			code := 503
			switch {
			case p.gone || p.frozen || strings.Contains(url, "[") && p.name != "kube-apiserver":
				code, exit = 0, 7
			case p.well():
				code = 200
			}
			out += fmt.Sprintf("%s %03d\n", url, code)
		}
	}
	return out, exit, true
}

// signal sends a signal to programs. The lock is held.
func (w *world) signal(m *machine, signal string, pids []string) int {
	for _, pid := range pids {
		i := slices.IndexFunc(m.programs, func(p *staticPod) bool { return !p.gone && strconv.Itoa(p.pid) == pid })
		if i < 0 {
			return 1
		}
		p := m.programs[i]
		switch {
		case w.inert:
		case signal == "KILL":
			p.start(p.args)
		default:
			p.frozen = signal == "STOP"
		}
	}
	return 0
}

// thaw is the agent's command. The lock is held.
func (w *world) thaw(m *machine, identities []string) {
	w.lead(m)
	if slices.Contains(identities, fmt.Sprintf("%d:%d", m.pid, int64(w.time(m.started))/1e7)) {
		m.frozen = false
	}
	if is := w.task(m); slices.Contains(identities, fmt.Sprintf("%d:%d", is.PID, is.Ticks())) {
		m.hung = false
	}
	if is := m.forked; slices.Contains(identities, fmt.Sprintf("%d:%d", is.PID, is.Ticks())) {
		m.forked.State = "S"
	}
	for _, p := range m.programs {
		is := p.process(w)
		if slices.Contains(identities, fmt.Sprintf("%d:%d", is.PID, is.Ticks())) {
			p.frozen = false
		}
	}
}

// faultsOf returns the definitions of a kind.
func faultsOf(kind string) []fault.Definition {
	return slices.DeleteFunc(definitions(), func(d fault.Definition) bool {
		return !strings.HasSuffix(d.Name, "-"+kind) || !slices.Contains(d.Needs, "static-pods")
	})
}

// TestTheControlPlaneIsHurtInTwelveWays checks that all faults are in the lists.
func TestTheControlPlaneIsHurtInTwelveWays(t *testing.T) {
	for _, kind := range []string{"kill", "freeze", "stop"} {
		if n := len(faultsOf(kind)); n != 4 {
			t.Errorf("%d faults of kind %q, want 4", n, kind)
		}
	}
}

// TestAProgramThatComesBackByItselfIsFound lets the timer's heal run during the hold.
func TestAProgramThatComesBackByItselfIsFound(t *testing.T) {
	for _, def := range slices.Concat(faultsOf("freeze"), faultsOf("stop")) {
		t.Run(def.Name, func(t *testing.T) {
			inWorld(t, def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
				r, err := faulttest.Run(t.Context(), def, b, func(f history.Fault) {
					if f.Stage == history.StageConfirmed {
						w.expire(w.nodes["c-control-plane"], undo.Owner{Run: "r1", Step: 1})
					}
				})
				if stageOf(err) != "hold" || !strings.Contains(err.Error(), `on node "c-control-plane"`) {
					t.Errorf("got %v, want an error of hold", err)
				}
				if evidenceOf(r, history.StageConfirmedHealed) == "" {
					t.Errorf("it was not healed: %q", r.Stages())
				}
			})
		})
	}
}

// TestALaterProgramIsNotTheFrozenOne kills the frozen program, as the kubelet does after some time.
func TestALaterProgramIsNotTheFrozenOne(t *testing.T) {
	def := component("etcd-freeze")
	inWorld(t, def, func(*world) {}, func(t *testing.T, w *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), def, b, func(f history.Fault) {
			if f.Stage == history.StageConfirmed {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.static("etcd").start(nil)
			}
		})
		if stageOf(err) != "hold" || !strings.Contains(err.Error(), "a later one, runs") {
			t.Errorf("got %v, want an error of hold", err)
		}
		if evidenceOf(r, history.StageConfirmedHealed) == "" {
			t.Errorf("it was not healed: %q", r.Stages())
		}
	})
}

// TestWhatIsNotWellIsNotHurt checks that a program is left alone if its effect could not be shown.
func TestWhatIsNotWellIsNotHurt(t *testing.T) {
	for name, tc := range map[string]struct {
		def  fault.Definition
		hurt func(p *staticPod)
		of   string
		says string
	}{
		"frozen by others": {
			component("etcd-freeze"), func(p *staticPod) { p.frozen = true }, "etcd", "frozen already",
		},
		"not running": {
			component("scheduler-kill"), func(p *staticPod) { p.gone = true }, "kube-scheduler", "does not run",
		},
		"without an API": {
			component("etcd-stop"), func(p *staticPod) { p.gone = true }, "kube-apiserver", "is not answered before",
		},
		"without its health": {
			component("manager-stop"), func(p *staticPod) { p.port = 1 }, managerName, "for 2 addresses",
		},
	} {
		t.Run(name, func(t *testing.T) {
			hurt := func(w *world) { tc.hurt(w.static(tc.of)) }
			inWorld(t, tc.def, hurt, func(t *testing.T, w *world, b faulttest.Bench) {
				f, err := tc.def.New(b.Spec, 1, b.Env)
				if err != nil {
					t.Fatal(err)
				}
				err = faulttest.Arm(t.Context(), f, b)
				if err == nil {
					err = f.Inject(t.Context())
				}
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %v, want %q", err, tc.says)
				}
				for _, a := range w.cluster.Transcript.Acts() {
					if a.Argv[0] == "kill" || a.Argv[0] == "mv" || a.Argv[0] == "rm" {
						t.Errorf("it was hurt: %s", a)
					}
				}
			})
		})
	}
}

// component returns a fault of a program of the control plane.
func component(name string) fault.Definition {
	all := controlplane.Components()
	return all[slices.IndexFunc(all, func(d fault.Definition) bool { return d.Name == name })]
}

// TestADatabaseIsNoControlPlane has an etcd of somebody's on the control plane's node, as a pod.
func TestADatabaseIsNoControlPlane(t *testing.T) {
	for _, def := range definitions() {
		if !strings.HasPrefix(def.Name, "etcd-") {
			continue
		}
		t.Run(def.Name, func(t *testing.T) {
			inWorld(t, def, func(w *world) { w.etcd2 = true }, func(t *testing.T, w *world, b faulttest.Bench) {
				if _, err := faulttest.Run(t.Context(), def, b, nil); err != nil {
					t.Error(err)
				}
				for _, a := range w.cluster.Transcript.Acts() {
					if strings.Contains(a.String(), "kill") && strings.Contains(a.String(), " 4000") {
						t.Errorf("%s", a)
					}
				}
			})
		})
	}
}
