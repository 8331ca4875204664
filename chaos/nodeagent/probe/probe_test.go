package probe_test

import (
	"io/fs"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tail = " S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 "

func TestLookup(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	proc := fstest.MapFS{
		"1/stat":      file("1 (systemd)" + tail + "100 5 6\n"),
		"1/cgroup":    file("0::/init.scope\n"),
		"20/stat":     file("20 (a) b) (c)" + tail + "250 5 6\n"),
		"20/cgroup":   file("0::/kubelet.slice/kubelet-kubepods-podaa_bb.slice/x\n"),
		"21/stat":     file("21 (pause)" + tail + "251 5 6\n"),
		"21/cgroup":   file("4:memory:/kubepods/podaa-bb/x\n"),
		"22/stat":     file("22 (gone) Z 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 252 5 6\n"),
		"22/cgroup":   file("0::/kubepods/podaa-bb/x\n"),
		"23/stat":     file("23 (mysqld)" + tail + "253 5 6\n"),
		"23/cgroup":   file("0::/kubepods/podcc/x\n"),
		"30/stat":     file("30 (kubelet)" + tail + "300 5 6\n"),
		"31/stat":     file("31 (etcd) T" + strings.TrimPrefix(tail, " S") + "301 5 6\n"),
		"31/cmdline":  file("/usr/local/bin/etcd\x00--name=a\x00"),
		"32/stat":     file("32 (etcdctl)" + tail + "302 5 6\n"),
		"32/cmdline":  file("etcdctl\x00etcd\x00"),
		"33/stat":     file("33 (kthreadd)" + tail + "303 5 6\n"),
		"33/cmdline":  file(""),
		"uptime":      file("1 1\n"),
		"self/cgroup": file("0::/podaa-bb\n"),
	}
	got, err := probe.Lookup(proc, probe.Query{
		PIDs: []int{30, 99}, Programs: []string{"etcd"}, PodUIDs: []string{"aa-bb"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got.At = 0
	if p := got.Processes[3]; !p.Frozen() || got.Processes[2].Frozen() || p.Ticks() != 301 {
		t.Errorf("frozen is %t, ticks %d of %+v", p.Frozen(), p.Ticks(), p)
	}
	want := probe.Processes{PID1Start: 1e9, Processes: []probe.Process{
		{PID: 20, Start: 25e8, Name: "a) b) (c", State: "S", PodUID: "aa-bb"},
		{PID: 21, Start: 251e7, Name: "pause", State: "S", PodUID: "aa-bb"},
		{PID: 30, Start: 3e9, Name: "kubelet", State: "S"},
		{PID: 31, Start: 301e7, Name: "etcd", State: "T"},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("processes (-want +got):\n%s", d)
	}
	for name, cause := range map[string]error{"closed": fs.ErrNotExist, "open": syscall.ESRCH} {
		got, err := probe.Lookup(ending{proc, cause}, probe.Query{PIDs: []int{30}})
		if err != nil || len(got.Processes) > 0 {
			t.Errorf("a process that ends with its file %s: %+v, %v", name, got.Processes, err)
		}
	}
	proc["30/stat"] = file("30 (kubelet) S 1")
	if _, err := probe.Lookup(proc, probe.Query{PIDs: []int{30}}); err == nil {
		t.Error("a stat that is too short passes")
	}
	delete(proc, "1/stat")
	if _, err := probe.Lookup(proc, probe.Query{}); err == nil {
		t.Error("a node without a first process passes")
	}
}

// ending is a /proc whose process 30 ends just before its file is opened, or when it is open and not yet read.
type ending struct {
	fstest.MapFS
	cause error
}

func (e ending) ReadFile(name string) ([]byte, error) {
	if name == "30/stat" {
		return nil, &fs.PathError{Op: "read", Path: name, Err: e.cause}
	}
	return e.MapFS.ReadFile(name)
}

func FuzzLookup(f *testing.F) {
	f.Add("1 (systemd)" + tail + "100 5 6\n")
	f.Add("1 () ) (")
	f.Fuzz(func(t *testing.T, stat string) {
		proc := fstest.MapFS{"1/stat": &fstest.MapFile{Data: []byte(stat)}}
		got, err := probe.Lookup(proc, probe.Query{PIDs: []int{1}})
		if err == nil && (got.PID1Start < 0 || len(got.Processes) > 1) {
			t.Fatalf("%q gives %+v", stat, got)
		}
	})
}

// server takes connections and gives each to serve.
func server(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestTCPSaysWhatAnswers(t *testing.T) {
	open := server(t, func(c net.Conn) { _ = c.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	_ = closed.Close()
	got := probe.TCP(t.Context(), []string{address, open, "nonsense"}, time.Second)
	if len(got) != 3 || got[0].Connected || !got[0].Refused || !got[1].Connected || got[2].Connected || got[2].Refused {
		t.Fatalf("got %+v", got)
	}
	for _, c := range got {
		if c.Begin <= 0 || c.End < c.Begin || c.Connected == (c.Error != "") {
			t.Errorf("got %+v", c)
		}
	}
}

func TestFlowOpensAndEnds(t *testing.T) {
	for _, tc := range []struct {
		name  string
		serve func(net.Conn)
		watch time.Duration
		want  []probe.FlowState
	}{
		{"lives", func(net.Conn) {}, time.Second, []probe.FlowState{probe.FlowOpen, probe.FlowOver}},
		{"is closed", func(c net.Conn) {
			_, _ = c.Read(make([]byte, 7))
			_, _ = c.Read(make([]byte, 7))
			_ = c.Close()
		}, 5 * time.Second, []probe.FlowState{probe.FlowOpen, probe.FlowClosed}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var conns []net.Conn
			address := server(t, func(c net.Conn) {
				conns = append(conns, c)
				tc.serve(c)
			})
			var states []probe.FlowState
			var last history.Time
			err := probe.Flow(t.Context(), address, 500*time.Millisecond, tc.watch, func(r probe.FlowReport) error {
				states = append(states, r.State)
				if r.At < last || r.LastAck > r.At {
					t.Errorf("got %+v after %s", r, last)
				}
				last = r.At
				return nil
			})
			for _, c := range conns {
				_ = c.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, states); d != "" {
				t.Errorf("states (-want +got):\n%s", d)
			}
		})
	}
	if err := probe.Flow(t.Context(), "127.0.0.1:1", time.Second, time.Second, nil); err == nil {
		t.Error("a flow to nobody opens")
	}
}
