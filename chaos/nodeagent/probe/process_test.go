package probe

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

const statTail = " S 7 1 1 0 -1 4194304 100 0 0 0 0 0 0 0 20 0 1 0 135301 3133440 384"

func TestParseStat(t *testing.T) {
	t.Parallel()
	want := func(name string) Stat {
		return Stat{
			PID: 42, Name: name, State: 'S', Threads: 1, Start: history.Time(1353010 * time.Millisecond),
		}
	}
	for _, name := range []string{"mysqld", "", "a b", ")", "(", ") S 1 1 (", "x\ny", "((()))", "\xff\xfe"} {
		got, err := ParseStat([]byte("42 (" + name + ")" + statTail))
		if err != nil {
			t.Errorf("name %q: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want(name), got); diff != "" {
			t.Errorf("name %q (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseStatRefuses(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		"", "42", "42 (", "42 )(", "(a)" + statTail, "x (a)" + statTail, "-1 (a)" + statTail, "42 (a) S 7 1",
		"42 (a) S 7" + strings.Repeat(" x", 30), "42 (a) S 7" + strings.Repeat(" -1", 30),
		"42 (a) SS" + strings.Repeat(" 1", 30),
		"42 (a) S 7" + strings.Repeat(" 9223372036854775807", 30),
	} {
		if got, err := ParseStat([]byte(data)); err == nil {
			t.Errorf("ParseStat(%q) = %+v, want an error", data, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (mysqld)" + statTail))
	f.Add([]byte("42 () S (x))" + statTail))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseStat(data)
		if err != nil {
			return
		}
		if s.PID <= 0 || s.Start < 0 || s.Start%history.Time(tick) != 0 {
			t.Errorf("ParseStat(%q) = %+v", data, s)
		}
	})
}

func TestParsePodUID(t *testing.T) {
	t.Parallel()
	const uid = "0b6e3c1a-2f4d-4e5f-8a9b-0c1d2e3f4a5b"
	under := strings.ReplaceAll(uid, "-", "_")
	static := strings.Repeat("0af3", 8)
	tests := []struct{ name, cgroup, want string }{
		{"v2, systemd", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under +
			".slice/cri-containerd-abc.scope\n", uid},
		{"v2, systemd, kind", "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + under +
			".slice/cri-containerd-abc.scope", uid},
		{"v2, cgroupfs", "0::/kubepods/besteffort/pod" + uid + "/abc\n", uid},
		{"v1, cgroupfs, kind", "9:name=systemd:/\n4:memory:/kubelet/kubepods/pod" + uid + "/abc\n0::/\n", uid},
		{"v1, systemd", "9:name=systemd:/kubepods.slice/kubepods-pod" + under + ".slice/x.scope\n", uid},
		{"other cgroup namespace", "0::/../../kubepods/burstable/pod" + uid + "/abc", uid},
		{"cri prefix in one name", "0::/system.slice/containerd.service/kubepods-burstable-pod" + under +
			".slice:cri-containerd:abc", ""},
		{"static pod", "0::/kubelet/kubepods/burstable/pod" + static + "/abc", static},
		{"no pod", "0::/system.slice/kubelet.service", ""},
		{"a unit that only sounds like it", "0::/system.slice/pod" + uid + ".slice", ""},
		{"not a uid", "0::/kubepods/pod..%2f..%2fetc/abc", ""},
		{"upper case is no uid", "0::/kubepods/pod" + strings.ToUpper(uid) + "/abc", ""},
		{"empty", "", ""},
		{"no path", "0:\n", ""},
	}
	for _, tt := range tests {
		if got := ParsePodUID(tt.cgroup); got != tt.want {
			t.Errorf("%s: ParsePodUID(%q) = %q, want %q", tt.name, tt.cgroup, got, tt.want)
		}
	}
}

func TestParseContainerID(t *testing.T) {
	t.Parallel()
	const pod = "pod0b6e3c1a-2f4d-4e5f-8a9b-0c1d2e3f4a5b"
	id, other := strings.Repeat("0af3", 16), strings.Repeat("1", 64)
	tests := []struct{ name, cgroup, want string }{
		{"cgroupfs", "4:memory:/kubelet/kubepods/" + pod + "/" + id + "\n0::/\n", id},
		{"systemd", "0::/kubelet.slice/kubelet-kubepods.slice/x.slice/cri-containerd-" + id + ".scope\n", id},
		{"seen from another cgroup namespace", "0::/../../kubepods/burstable/" + pod + "/" + id, id},
		{"nested", "0::/kubepods/" + pod + "/" + id + "/docker/" + other, id},
		{"no pod", "0::/docker/" + id, ""},
		{"short", "0::/kubepods/" + pod + "/" + id[1:], ""},
		{"not hexadecimal", "0::/kubepods/" + pod + "/" + strings.Repeat("g", 64), ""},
		{"only the node is a container", "0::/docker/" + id + "/kubelet/kubepods/" + pod, ""},
		{"empty", "", ""},
	}
	for _, tt := range tests {
		if got := ParseContainerID(tt.cgroup); got != tt.want {
			t.Errorf("%s: ParseContainerID(%q) = %q, want %q", tt.name, tt.cgroup, got, tt.want)
		}
	}
}

func FuzzParsePodUID(f *testing.F) {
	f.Add("0::/kubepods/besteffort/pod0b6e3c1a-2f4d-4e5f-8a9b-0c1d2e3f4a5b/abc\n")
	f.Add("9:name=systemd:/kubepods.slice/kubepods-pod0b6e3c1a_2f4d_4e5f_8a9b_0c1d2e3f4a5b.slice/x.scope\n")
	valid := regexp.MustCompile(`^([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)
	f.Fuzz(func(t *testing.T, cgroup string) {
		if uid := ParsePodUID(cgroup); uid != "" && !valid.MatchString(uid) {
			t.Errorf("ParsePodUID(%q) = %q, which is no UID", cgroup, uid)
		}
		if id := ParseContainerID(cgroup); id != "" && (len(id) != 64 || !strings.Contains(cgroup, id)) {
			t.Errorf("ParseContainerID(%q) = %q, which is no id", cgroup, id)
		}
	})
}

// writeProc makes a directory that looks like /proc/PID.
func writeProc(t testing.TB, proc, pid, stat, cgroup string) {
	t.Helper()
	writeTo(t, filepath.Join(proc, pid, "stat"), stat)
	writeTo(t, filepath.Join(proc, pid, "cgroup"), cgroup)
}

func writeTo(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	writeProc(t, proc, "42", "42 (mysqld)"+statTail, "0::/kubepods/pod"+strings.Repeat("a", 32)+"/x")
	writeProc(t, proc, "7", "7 (containerd-shim)"+statTail, "0::/system.slice")
	writeProc(t, proc, "8", "8 (mysqld_safe)"+statTail, "0::/")
	zombie := strings.Replace(statTail, " S ", " Z ", 1)
	writeProc(t, proc, "9", "9 (mysqld)"+zombie, "0::/")
	// Its first thread has ended; another has not.
	writeProc(t, proc, "11", "11 (mysqld)"+strings.Replace(zombie, " 20 0 1 0 ", " 20 0 2 0 ", 1), "0::/")
	if err := os.MkdirAll(filepath.Join(proc, "10"), 0o755); err != nil { // It ended between two reads.
		t.Fatal(err)
	}
	got, err := list(proc, []string{"mysqld", "containerd-shim-runc-v2"})
	if err != nil {
		t.Fatal(err)
	}
	start := history.Time(1353010 * time.Millisecond)
	want := []Process{
		{PID: 7, Name: "containerd-shim", State: "S", Start: start},
		{PID: 11, Name: "mysqld", State: "Z", Start: start},
		{PID: 42, Name: "mysqld", State: "S", Start: start, PodUID: strings.Repeat("a", 32)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

const (
	tail   = " S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 "
	podA   = "0b6e3c1a-2f4d-4e5f-8a9b-0c1d2e3f4a5b"
	podB   = "1b6e3c1a-2f4d-4e5f-8a9b-0c1d2e3f4a5b"
	bootID = "5d4b1c9a-0000-4000-8000-000000000000\n"
)

// procWith makes a directory that looks like /proc with its first process.
func procWith(t testing.TB, stat string) string {
	t.Helper()
	proc := t.TempDir()
	writeProc(t, proc, "1", stat, "0::/init.scope\n")
	writeTo(t, filepath.Join(proc, "sys/kernel/random/boot_id"), bootID)
	return proc
}

func TestLookup(t *testing.T) {
	t.Parallel()
	proc := procWith(t, "1 (systemd)"+tail+"100 5 6\n")
	systemd := "0::/kubelet.slice/kubelet-kubepods-pod" + strings.ReplaceAll(podA, "-", "_") + ".slice/x\n"
	writeProc(t, proc, "20", "20 (a) b) (c)"+tail+"250 5 6\n", systemd)
	writeProc(t, proc, "21", "21 (pause)"+tail+"251 5 6\n", "4:memory:/kubepods/pod"+podA+"/x\n")
	zombie := "22 (gone) Z 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 252 5 6\n"
	writeProc(t, proc, "22", zombie, "0::/kubepods/pod"+podA+"/x\n")
	writeProc(t, proc, "23", "23 (mysqld)"+tail+"253 5 6\n", "0::/kubepods/pod"+podB+"/x\n")
	writeProc(t, proc, "30", "30 (kubelet)"+tail+"300 5 6\n", "0::/\n")
	for pid, line := range map[string]string{
		"31": "/usr/local/bin/etcd\x00--name=a\x00", "32": "etcdctl\x00etcd\x00", "33": "",
	} {
		writeProc(t, proc, pid, pid+" (etcd) T"+strings.TrimPrefix(tail, " S")+"301 5 6\n", "0::/\n")
		writeTo(t, filepath.Join(proc, pid, "cmdline"), line)
	}
	writeTo(t, filepath.Join(proc, "uptime"), "1 1\n")
	q := Query{PIDs: []int{30, 99}, Programs: []string{"etcd"}, PodUIDs: []string{podA}}
	got, err := Lookup(proc, q)
	if err != nil {
		t.Fatal(err)
	}
	got.At = 0
	want := Processes{PID1Start: 1e9, Boot: strings.TrimSpace(bootID), Processes: []Process{
		{PID: 20, Start: 25e8, Name: "a) b) (c", State: "S", PodUID: podA},
		{PID: 21, Start: 251e7, Name: "pause", State: "S", PodUID: podA},
		{PID: 30, Start: 3e9, Name: "kubelet", State: "S"},
		{PID: 31, Start: 301e7, Name: "etcd", State: "T"},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("processes (-want +got):\n%s", d)
	}
	if p := got.Processes[3]; !p.Frozen() || got.Processes[2].Frozen() || p.Ticks() != 301 {
		t.Errorf("frozen is %t, ticks %d of %+v", p.Frozen(), p.Ticks(), p)
	}
	writeTo(t, filepath.Join(proc, "30/stat"), "30 (kubelet) S 1")
	if _, err := Lookup(proc, q); err == nil {
		t.Error("a stat that is too short passes")
	}
	if err := os.Remove(filepath.Join(proc, "30/stat")); err != nil {
		t.Fatal(err)
	}
	if got, err := Lookup(proc, q); err != nil || len(got.Processes) != 3 {
		t.Errorf("a process that ends while it is read: %+v, %v", got, err)
	}
	if err := os.Remove(filepath.Join(proc, "1/stat")); err != nil {
		t.Fatal(err)
	}
	if _, err := Lookup(proc, Query{}); err == nil {
		t.Error("a node without a first process passes")
	}
}

func FuzzLookup(f *testing.F) {
	f.Add("1 (systemd)" + tail + "100 5 6\n")
	f.Add("1 () ) (")
	f.Fuzz(func(t *testing.T, stat string) {
		got, err := Lookup(procWith(t, stat), Query{PIDs: []int{1}})
		if err == nil && (got.PID1Start < 0 || len(got.Processes) > 1) {
			t.Fatalf("%q gives %+v", stat, got)
		}
	})
}

func TestListFindsThisProcess(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	self, err := ParseStat(data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := List(self.Name)
	if err != nil {
		t.Fatal(err)
	}
	now := bootclock.Now()
	for _, p := range got {
		if p.PID == os.Getpid() {
			if p.Start > now || p.Start < now.Add(-time.Hour) {
				t.Errorf("start %v is not shortly before now, %v", p.Start, now)
			}
			return
		}
	}
	t.Errorf("List(%q) = %+v: pid %d is missing", self.Name, got, os.Getpid())
}

func TestReadBoot(t *testing.T) {
	t.Parallel()
	boot, err := ReadBoot()
	if err != nil {
		t.Fatal(err)
	}
	since, ok := history.ParseBoot(boot.Name())
	if !ok || since != boot.PID1Start {
		t.Errorf("Name() = %q, read back as %v (%t), want %v", boot.Name(), since, ok, boot.PID1Start)
	}
	if another := (Boot{boot.PID1Start, "0c3b2a1f-" + boot.Kernel}); another.Name() == boot.Name() {
		t.Errorf("two boots are named %q", boot.Name())
	}
	if boot.PID1Start > bootclock.Now() {
		t.Errorf("ReadBoot() = %+v", boot)
	}
	if _, err := readBoot(t.TempDir()); err == nil {
		t.Error("readBoot of an empty directory: no error")
	}
}
