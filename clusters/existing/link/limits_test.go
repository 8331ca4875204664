package link

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/clusters"
)

func limits() Limits {
	return Limits{
		Node: "n1", Faults: []string{"kubelet-kill", "node-partition"}, Longest: time.Minute, Total: 100 * time.Second,
		Scripts: []string{ScriptSum("begin the ledger")},
	}
}

// run carries out a command that leaves a trace if it was run.
func run(t *testing.T, address string, a *Authority) (ran bool, err error) {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	_, err = Exec(t.Context(), harness(t, address, a), []string{"touch", trace},
		Streams{Stdout: io.Discard, Stderr: io.Discard})
	_, missing := os.Stat(trace)
	return missing == nil, err
}

// A harness with a bug asks for more than the limits allow. The agent refuses, says which limit, and does nothing.
func TestAgentHoldsToItsLimits(t *testing.T) {
	second := time.Second
	type ask struct {
		owner, fault string
		life         time.Duration
	}
	for _, tc := range []struct {
		name   string
		change func(*Limits)
		before []ask // Asked for, given and ended before.
		ask    ask
		want   string // Empty if it is given.
	}{
		{name: "within", ask: ask{"r1-1", "kubelet-kill", 60 * second}},
		{name: "another fault", ask: ask{"r1-1", "node-reboot", second},
			want: `fault "node-reboot" is not among those allowed on node "n1": kubelet-kill, node-partition`},
		{name: "a node that is not on the allow-list", change: func(l *Limits) { l.Faults = nil },
			ask: ask{"r1-1", "kubelet-kill", second}, want: `node "n1" is not on the allow-list`},
		{name: "too long", ask: ask{"r1-1", "kubelet-kill", 61 * second}, want: "may last longer than 1m0s"},
		{name: "no end", ask: ask{"r1-1", "kubelet-kill", 0}, want: "may last longer than 1m0s"},
		{name: "an overflow", ask: ask{"r1-1", "kubelet-kill", -1}, want: "may last longer than 1m0s"},
		{name: "no owner", ask: ask{"", "kubelet-kill", second}, want: "has no owner"},
		{name: "the budget is used up", before: []ask{{"r1-1", "kubelet-kill", 60 * second}},
			ask: ask{"r1-2", "node-partition", 41 * second}, want: `of the budget of 1m40s on node "n1", 40s is left`},
		{name: "the rest of the budget", before: []ask{{"r1-1", "kubelet-kill", 60 * second}},
			ask: ask{"r1-2", "node-partition", 40 * second}},
		{name: "no budget", change: func(l *Limits) { l.Total = 0 }, ask: ask{"r1-1", "kubelet-kill", second},
			want: "of the budget of 0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := limits()
			if tc.change != nil {
				tc.change(&l)
			}
			address, a := agentWith(t, NewBounds(t.TempDir(), l))
			for _, b := range tc.before {
				must(t, Begin(t.Context(), harness(t, address, a), b.owner, b.fault, b.life))
				must(t, End(t.Context(), harness(t, address, a), b.owner))
			}
			err := Begin(t.Context(), harness(t, address, a), tc.ask.owner, tc.ask.fault, tc.ask.life)
			if errors.Is(err, ErrLimit) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("begin = %v, want %q", err, tc.want)
			}
			ran, err := run(t, address, a)
			if ran != (tc.want == "") || errors.Is(err, ErrLimit) == ran {
				t.Errorf("a command ran: %t, %v", ran, err)
			}
		})
	}
}

// A command that may do harm runs from begin to end of a fault, and not after its deadline or in another boot.
func TestHarmIsDoneWithinAFaultOnly(t *testing.T) {
	dir, boot, now := t.TempDir(), "first", time.Hour
	b := NewBounds(dir, limits())
	b.now = func() (string, time.Duration) { return boot, now }
	address, a := agentWith(t, b)
	check := func(when string, want bool) {
		t.Helper()
		ran, err := run(t, address, a)
		if ran != want || errors.Is(err, ErrLimit) == want {
			t.Errorf("%s: a command ran: %t, want %t: %v", when, ran, want, err)
		}
	}
	begin := func(owner string) { t.Helper(); must(t, b.begin(owner, "kubelet-kill", 20*time.Second)) }
	check("before", false)
	begin("r1-1")
	check("within", true)
	now += 20 * time.Second
	check("after its deadline", false)
	begin("r1-2")
	begin("r1-2") // Again, as after a lost answer: it costs nothing.
	must(t, b.end("r1-2"))
	check("after its end", false)
	begin("r1-3")
	boot = "second"
	check("in another boot", false)
	b = NewBounds(dir, limits()) // Another process of the agent.
	u, err := b.read()
	if err != nil || u.Total != time.Minute {
		t.Errorf("used %+v, %v; want 60 s in all", u, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, usedFile), []byte("{"), 0o600))
	if err := b.begin("r1-4", "kubelet-kill", time.Second); err == nil {
		t.Error("a fault may begin though it is not known what was used")
	}
	var none *Bounds
	if err := none.begin("r1-1", "kubelet-kill", time.Second); !errors.Is(err, ErrLimit) {
		t.Errorf("without limits: %v", err)
	}
	if err := none.allow([]string{"reboot"}); !errors.Is(err, ErrLimit) {
		t.Errorf("without limits: %v", err)
	}
}

// What reads, undoes, or serves the observers may always run; what is not known is not among it.
func TestHarmless(t *testing.T) {
	const agentPath = clusters.AgentPath
	scripts := []string{ScriptSum("begin the ledger")}
	for line, want := range map[string]bool{
		"cat /proc/1/mountinfo":                                          true,
		"systemctl show kubelet --property=MainPID":                      true,
		"systemctl start kubelet":                                        true,
		"nft list tables":                                                true,
		"nft -j list counters table inet seatrial_r1_1":                  true,
		"ip -json route get 10.0.0.1":                                    true,
		"tc -s -json qdisc show":                                         true,
		"timeout 5 ctr version":                                          true,
		"ctr --namespace k8s.io tasks list":                              true,
		"curl -sk -o /dev/null --max-time 2 -w %{http_code} https://a/b": true,
		"curl --silent --insecure --noproxy * --max-time 2 --write-out %{http_code} " +
			"--output /dev/null https://127.0.0.1:6443/readyz": true,
		"find /var/log -type f":                                       true,
		agentPath + " undo --run r1":                                  true,
		agentPath + " damage mend --run r1 --step 1":                  true,
		agentPath + " order end --run r1 --step 1":                    true,
		agentPath + " clock":                                          true,
		"nsenter --target 7 --net -- " + agentPath + " probe tcp a:1": true,
		"dd of=" + agentPath + ".new bs=1M iflag=fullblock":           true,
		"mv -f " + agentPath + ".new " + agentPath:                    true,
		Session("s").Program() + " link stop s":                       true,

		"touch /x":                                        false,
		"reboot":                                          false,
		"sh -c reboot":                                    false,
		"kill -s KILL 1":                                  false,
		"systemctl stop kubelet":                          false,
		"systemctl kill kubelet":                          false,
		"systemd-run --quiet -- sh":                       false,
		"nft -f -":                                        false,
		"nft flush ruleset":                               false,
		"nft list tables; flush ruleset":                  false,
		"ip route del default":                            false,
		"ip route flush table main":                       false,
		"tc qdisc add dev eth0 root netem loss 30%":       false,
		"timeout 5 systemctl stop kubelet":                false,
		"ctr --namespace k8s.io tasks kill list":          false,
		"curl -X POST https://a/b":                        false,
		"curl -o /etc/passwd https://a/b":                 false,
		"curl --output /etc/passwd https://a/b":           false,
		"curl -sk -w %output{/etc/passwd}x https://a/b":   false,
		"find / -delete":                                  false,
		agentPath + " damage inflict --run r1 --step 1 v": false,
		agentPath + " order start --run r1 --step 1":      false,
		agentPath + " clock --ahead 1h --boot b":          false,
		agentPath + " trigger f -- reboot":                false,
		agentPath + " restore /etc/passwd":                false,
		"nsenter --target 1 --mount -- sh":                false,
		"nsenter --target 7 --net -- ip link set lo down": false,
		"dd of=/dev/sda":                                  false,
		"mv -f /etc/kubernetes/a /etc/kubernetes/b":       false,
		"mv -f " + agentPath + "/../a /etc/passwd":        false,
		"/tmp/seatrial-agent undo":                        false,
	} {
		if got := harmless(strings.Fields(line), scripts); got != want {
			t.Errorf("%q is harmless: %t, want %t", line, got, want)
		}
	}
	for _, c := range []struct {
		argv []string
		want bool
	}{
		{[]string{"sh", "-c", "begin the ledger", "begin"}, true},
		{[]string{"sh", "-c", "begin the ledger; reboot", "begin"}, false},
		{[]string{"nft", "add table inet seatrial_r1_1; delete table inet seatrial_r1_1"}, true},
		{[]string{"nft", "add table inet seatrial_r1_1; delete table inet seatrial_r1_1; flush ruleset"}, false},
		{[]string{"nft", "add table inet seatrial_r1; flush ruleset"}, false},
		{[]string{"nft", "add table inet seatrial_a delete table inet b; delete table inet seatrial_a"}, false},
		{[]string{"nft", "list", "tables"}, true},
	} {
		if got := harmless(c.argv, scripts); got != c.want {
			t.Errorf("%q is harmless: %t, want %t", c.argv, got, c.want)
		}
	}
}

// Limits count only with the signature of the session's authority, and never change within the session.
func TestLimitsAreSigned(t *testing.T) {
	a, err := NewAuthority(time.Now())
	must(t, err)
	other, err := NewAuthority(time.Now())
	must(t, err)
	s := Session("limitstest")
	t.Cleanup(func() { must(t, os.RemoveAll(s.dir())) })
	sign := func(by *Authority, change func(*Limits)) Identity {
		l := limits()
		l.Session = s
		change(&l)
		i, err := by.Node(l)
		must(t, err)
		return i
	}
	none := func(*Limits) {}
	good := sign(a, none)
	forged := sign(a, none)
	forged.Limits.Text = bytes.Replace(forged.Limits.Text, []byte("kubelet-kill"), []byte("node-reboot "), 1)
	stranger := sign(a, none)
	stranger.Limits = sign(other, none).Limits
	elsewhere := sign(a, none)
	elsewhere.Limits = sign(a, func(l *Limits) { l.Node = "n2" }).Limits
	if os.Getuid() != 0 {
		t.Skip("NOT RUN: limits are kept below " + Sessions + ", which needs root: make e2e")
	}
	for _, c := range []struct {
		name string
		who  Identity
		want string
	}{
		{"forged", forged, "did not sign"},
		{"signed by another session", stranger, "did not sign"},
		{"unsigned", Identity{CA: good.CA, Cert: good.Cert}, "did not sign"},
		{"of another node", elsewhere, `for node "n2"`},
		{"of another session", sign(a, func(l *Limits) { l.Session = "other" }), `in session "other"`},
		{"good", good, ""},
		{"the same, as after a boot", sign(a, none), ""},
		{"wider", sign(a, func(l *Limits) { l.Total *= 2 }), "cannot be changed"},
	} {
		err := s.Keep(c.who)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	b, err := s.Bounds()
	if err != nil || b.limits.Total != limits().Total {
		t.Errorf("bounds %+v, %v", b, err)
	}
	if _, err := Session("neverkept").Bounds(); err == nil {
		t.Error("a session without limits has some")
	}
}
