package kind

import (
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWhatAKindClusterCannot(t *testing.T) {
	const release = "/proc/sys/kernel/osrelease"
	built := func(config string) map[string]string {
		return map[string]string{release: "6.18.1\n", "/boot/config-6.18.1": config}
	}
	for _, tc := range []struct {
		name, need string
		tried      error
		files      map[string]string
		engine     string
		want       string
	}{
		{"one clock", "clock", nil, nil, "", "wall clock"},
		{"nothing asked of the kernel", "nftables", unix.ENOENT, nil, "", ""},
		{"it has it", "netem", nil, built(""), "", ""},
		{"it has not", "netem", unix.ENOENT, built("CONFIG_NET_SCH_NETEM=y\n"), "",
			"6.18.1, which the nodes share, has no"},
		{"none at all", "tbf", unix.EOPNOTSUPP, built(""), "", "no queueing discipline tbf"},
		{"not permitted, and not built", "netem", unix.EPERM, built("CONFIG_NET=y\n"), "",
			"without CONFIG_NET_SCH_NETEM"},
		{"not permitted, and a module", "netem", unix.EPERM, built("CONFIG_NET_SCH_NETEM=m\n"), "", ""},
		{"not permitted, and said not to be", "tbf", unix.EPERM, built("# CONFIG_NET_SCH_TBF is not set\n"), "",
			"without CONFIG_NET_SCH_TBF"},
		{"not permitted, and not told", "netem", unix.EPERM, nil, "", ""},
		{"another machine", "netem", unix.ENOENT, built(""), "tcp://10.0.0.1:2375", ""},
		{"a socket", "netem", unix.ENOENT, built(""), "unix:///run/podman.sock", "has no queueing discipline"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := host{
				getenv: func(name string) string { return map[string]string{"DOCKER_HOST": tc.engine}[name] },
				readFile: func(name string) ([]byte, error) {
					if text, ok := tc.files[name]; ok {
						return []byte(text), nil
					}
					return nil, fs.ErrNotExist
				},
				try: func(string) error { return tc.tried },
			}
			got := h.capabilities().Lacks([]string{tc.need})[tc.need]
			if tc.want == "" != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestTheKernelIsAsked holds what the kernel answers here against what tc sees of it.
func TestTheKernelIsAsked(t *testing.T) {
	for _, q := range [][]string{
		{"netem", "delay", "1ms"}, {"tbf", "rate", "1mbit", "burst", "10kb", "latency", "1ms"},
	} {
		err := tryQdisc(q[0])
		if errors.Is(err, unix.EPERM) {
			t.Skip("NOT RUN: a queueing discipline in a network namespace; it needs root")
		}
		if _, lacks := exec.LookPath("tc"); lacks != nil {
			t.Skip("NOT RUN: what tc sees; it is not installed on this host")
		}
		argv := append([]string{"--net", "tc", "qdisc", "add", "dev", "lo", "root"}, q...)
		said, ran := exec.Command("unshare", argv...).CombinedOutput()
		if (err == nil) != (ran == nil) {
			t.Errorf("%s: the kernel answers %v, and tc %v: %s", q[0], err, ran, said)
		}
		t.Logf("%s: %v", q[0], err)
		if why := Capabilities().Lacks([]string{q[0]}); len(why) > 0 != (err != nil) {
			t.Errorf("%s: got %q", q[0], why)
		}
	}
}
