package faulttest_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/undo"
)

// services are what runs on a node beside its kubelet, and the files that it is made of.
type services struct {
	stopped      bool      // The kubelet.
	starvedAt    time.Time // When the kubelet got a quota.
	files        map[string]string
	runtime      int // Pid of containerd.
	runtimeBegan time.Time
	runtimeAgain int  // How often it was started again.
	shimless     bool // The shims have ended.
	shimsFall    bool // They end with containerd, as they do when all of its unit is killed.

	programs []*staticPod // Of the control plane; none on a worker.
}

const (
	managerFile = undo.ManifestDir + "kube-controller-manager.yaml"
	// aDirectory is the content of what is none.
	aDirectory = "\x00directory"
)

// managerManifest is cut down from what kubeadm writes.
const managerManifest = `apiVersion: v1
kind: Pod
metadata:
  name: kube-controller-manager
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-controller-manager
    - --leader-elect=true
    image: kube-controller-manager:v1
    name: kube-controller-manager
    resources: {}
  hostNetwork: true
status: {}
`

func (w *world) makeServices(m *machine) {
	m.files, m.runtime, m.runtimeBegan = map[string]string{}, 193, w.begin
	if strings.HasSuffix(m.node.Name(), "control-plane") {
		w.makePrograms(m)
	}
	if m.node.Name() == "c-worker" {
		m.files["/var/lib/kubelet/pods/"+workloadUID+"/volumes/kubernetes.io~csi/"+workloadPV+"/vol_data.json"] = "{}"
	}
}

func commandOf(manifest string) []string {
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(manifest), &pod); err != nil {
		panic(err)
	}
	return slices.Concat(pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args)
}

// service carries out a command about services and files, if it is one. The lock is held.
func (w *world) service(m *machine, argv []string, stdin string) (out string, exit int, known bool) {
	switch line := strings.Join(argv, " "); {
	case strings.Contains(line, "CPUQuotaPerSecUSec"):
		quota := "infinity"
		if !m.starvedAt.IsZero() {
			quota = "1ms"
		}
		return "ControlGroup=/k\nCPUQuotaPerSecUSec=" + quota + "\n", 0, true
	case line == "systemctl set-property --runtime kubelet CPUQuota=0.1% CPUQuotaPeriodSec=1s":
		if !w.inert {
			m.starvedAt = time.Now()
		}
	case line == "systemctl set-property --runtime kubelet CPUQuota= CPUQuotaPeriodSec=":
		m.starvedAt, m.renewed = time.Time{}, time.Now()
	case line == "systemctl daemon-reload", strings.HasPrefix(line, "find /run/systemd/system.control "):
	case line == "cat /sys/fs/cgroup/cpu/k/cpu.stat":
		return "", 1, true
	case line == "cat /sys/fs/cgroup/k/cpu.stat":
		periods := 0
		if !m.starvedAt.IsZero() {
			periods = int(time.Since(m.starvedAt).Seconds())
		}
		return fmt.Sprintf("usage_usec 1\nnr_periods %[1]d\nnr_throttled %[1]d\n", periods), 0, true
	case strings.HasPrefix(line, "systemctl show kubelet") && m.stopped:
		return "MainPID=0\nNRestarts=0\nActiveState=inactive\nSubState=dead\n", 0, true
	case line == "systemctl stop kubelet":
		m.stopped = !w.inert
	case line == "systemctl start kubelet":
		w.startKubelet(m)
	case strings.HasPrefix(line, "systemctl show containerd"):
		return fmt.Sprintf("MainPID=%d\nNRestarts=%d\nActiveState=active\nSubState=running\n", m.runtime,
			m.runtimeAgain), 0, true
	case line == "systemctl kill --kill-who=main -s KILL containerd":
		if !w.inert {
			m.runtime, m.runtimeBegan, m.runtimeAgain = m.runtime+100, time.Now(), m.runtimeAgain+1
			m.shimless = m.shimsFall
		}
	case line == "systemctl start containerd", line == "ctr version":
	case strings.HasPrefix(line, "ps -o ppid= -p "):
		return strings.ReplaceAll(argv[4], "90", " 80") + "\n", 0, true
	default:
		if out, exit, known := w.programsOf(m, argv); known {
			return out, exit, true
		}
		return w.file(m, argv, stdin)
	}
	return "", 0, true
}

func (w *world) startKubelet(m *machine) {
	if m.stopped {
		m.stopped, m.pid, m.started, m.renewed = false, m.pid+100, time.Now(), time.Now()
		w.register(m)
	}
}

// file carries out a command about files, if it is one. The kubelet that may be inert is not asked: files stay as they
// are made. The lock is held.
func (w *world) file(m *machine, argv []string, stdin string) (out string, exit int, known bool) {
	defer func() {
		if m.programs != nil {
			w.reconcile(m)
		}
	}()
	last := argv[len(argv)-1]
	content, there := m.files[last]
	switch {
	case argv[0] == "mkdir":
		m.files[path.Clean(last)], m.files[path.Dir(path.Clean(last))] = aDirectory, aDirectory
	case argv[0] == "dd":
		m.files[strings.TrimPrefix(argv[1], "of=")] = stdin
	case argv[0] == "chmod" || argv[0] == "cat" || argv[0] == "sha256sum":
		if !there {
			return "", 1, last != "/proc/1/mountinfo"
		}
		if argv[0] == "sha256sum" {
			sum := sha256.Sum256([]byte(content))
			return hex.EncodeToString(sum[:]) + "  " + last + "\n", 0, true
		}
		return map[string]string{"cat": content}[argv[0]], 0, true
	case argv[0] == "cp" || argv[0] == "mv":
		from := argv[2]
		if _, ok := m.files[from]; !ok {
			return "", 1, true
		}
		m.files[last] = m.files[from]
		if argv[0] == "mv" {
			delete(m.files, from)
		}
	case argv[0] == "rm":
		for _, gone := range argv[2:] {
			maps.DeleteFunc(m.files, func(name, _ string) bool { return strings.HasPrefix(name+"/", gone+"/") })
		}
	case argv[0] == "find" && strings.HasPrefix(argv[1], "/var/lib/kubelet/pods"):
		name := argv[slices.Index(argv, "-name")+1]
		for _, file := range slices.Sorted(maps.Keys(m.files)) {
			switch matches := strings.HasPrefix(file, argv[1]) && path.Base(file) == name; {
			case matches && last != ";":
				out += file + "\n"
			case matches && !w.inert:
				m.files[path.Join(path.Dir(file), argv[len(argv)-2])] = m.files[file]
				delete(m.files, file)
			}
		}
		return out, 0, true
	case argv[0] == nodeagent.Path && argv[1] == "restore":
		if content := m.files[last]; content != stdin {
			m.files[last] = stdin
		}
	case argv[0] == nodeagent.Path && argv[1] == "thaw":
		w.thaw(m, argv[2:])
	default:
		return "", 0, false
	}
	return "", 0, true
}
