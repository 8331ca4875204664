package faulttest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters"
)

// The pods of the workload that the world has addresses for: the victim, and one on the other worker.
const (
	peerPod = "mysql-2"
	peerUID = "0c-2d"
	peerPID = 950
)

// place is where an address is: a node, or a pod on it.
type place struct {
	m   *machine
	pod string
}

// podIPs are the addresses of a pod: both families.
func podIPs(pod string) []corev1.PodIP {
	n := strings.TrimPrefix(pod, "mysql-")
	return []corev1.PodIP{{IP: "10.244." + n + ".7"}, {IP: "fd00:10:244:" + n + "::7"}}
}

// peer is the pod on the other worker. It is there all the time.
func peer() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "trial", Name: peerPod, UID: peerUID},
		Spec: corev1.PodSpec{
			NodeName: "c-worker2", Containers: []corev1.Container{{Name: "mysql", Ports: mysqlPorts()}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: podIPs(peerPod)},
	}
}

// dnsPod serves the cluster's DNS, at its own addresses and, the last, at that of the Service.
const dnsPod = "coredns"

// dnsCache is where each node has one, if there is one.
const dnsCache = "169.254.20.10"

func dnsAddresses() []string { return []string{"10.244.0.9", "fd00:10:244::9", "10.96.0.10"} }

func dnsService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: "coredns", Labels: map[string]string{"k8s-app": "kube-dns"},
		},
		Spec: corev1.ServiceSpec{ClusterIPs: dnsAddresses()[2:]},
	}
}

// listDNS lists the pods of the cluster's DNS, for who asks for them alone.
func (w *world) listDNS(a k8stesting.Action) (bool, runtime.Object, error) {
	if a.(k8stesting.ListAction).GetListRestrictions().Labels.String() != "k8s-app=kube-dns" {
		return false, nil, nil
	}
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: dnsPod, Labels: map[string]string{"k8s-app": "kube-dns"},
		},
		Spec: corev1.PodSpec{NodeName: "c-control-plane"},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, ip := range dnsAddresses()[:2] {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return true, &corev1.PodList{Items: []corev1.Pod{pod}}, nil
}

func mysqlPorts() []corev1.ContainerPort { return []corev1.ContainerPort{{ContainerPort: 3306}} }

// places says whose the addresses are. They never change.
func (w *world) places() map[netip.Addr]place {
	if w.placed != nil {
		return w.placed
	}
	w.placed = map[netip.Addr]place{}
	for _, m := range w.nodes {
		addresses, _ := m.node.Addresses(context.Background())
		for _, a := range addresses {
			w.placed[a] = place{m: m}
		}
	}
	for _, a := range dnsAddresses() {
		w.placed[netip.MustParseAddr(a)] = place{m: w.nodes["c-control-plane"], pod: dnsPod}
	}
	w.placed[netip.MustParseAddr(dnsCache)] = place{m: w.nodes["c-worker"], pod: "node-local-dns"}
	for pod, node := range map[string]string{"mysql-1": "c-worker", peerPod: "c-worker2"} {
		for _, ip := range podIPs(pod) {
			w.placed[netip.MustParseAddr(ip.IP)] = place{m: w.nodes[node], pod: pod}
		}
	}
	return w.placed
}

// addressOf returns the address of a place that is of the family of another.
func (w *world) addressOf(at place, like netip.Addr) netip.Addr {
	for a, p := range w.places() {
		if p == at && a.Is4() == like.Is4() {
			return a
		}
	}
	panic("no address of that family")
}

// packet is what travels: a TCP packet of some flow, or an ICMP one.
type packet struct {
	from, to netip.Addr
	tcp      bool
	port     uint16 // Of UDP or TCP, where it goes; 0 for others.
	syn, ack bool
	flow     string
}

func (p packet) back() packet {
	p.from, p.to, p.ack = p.to, p.from, true
	return p
}

// filter is an nftables table as the world understands it.
type filter struct {
	sets     map[string][]netip.Prefix
	rules    map[string][][]string // By hook: the words of each rule.
	counters map[string]uint64
	young    map[string]bool // Set and flow.
	dice     *rand.Rand
}

// parseFilter reads what network.ruleset writes, and nothing else.
func parseFilter(text string) *filter {
	f := &filter{sets: map[string][]netip.Prefix{}, rules: map[string][][]string{}, counters: map[string]uint64{},
		young: map[string]bool{}, dice: rand.New(rand.NewPCG(1, 2))}
	set, hook := "", ""
	for line := range strings.Lines(text) {
		word := strings.Fields(strings.TrimRight(strings.TrimSpace(line), ","))
		switch {
		case len(word) == 0, word[0] == "add", word[0] == "delete", word[0] == "table":
		case word[0] == "counter" && word[len(word)-1] == "{":
			f.counters[word[1]] = 0
		case word[0] == "set":
			set, f.sets[word[1]] = word[1], nil
		case word[0] == "chain":
			set = ""
		case word[0] == "type" && word[1] == "filter":
			hook = word[3]
		case set != "" && len(word) == 3 && word[1] == "timeout":
			prefix, err := netip.ParsePrefix(word[0])
			if err != nil {
				a := netip.MustParseAddr(word[0])
				prefix = netip.PrefixFrom(a, a.BitLen())
			}
			f.sets[set] = append(f.sets[set], prefix)
		case set == "" && hook != "" && word[0] != "}":
			f.rules[hook] = append(f.rules[hook], word)
		}
	}
	return f
}

// judge returns "accept", "drop" or "reject".
func (f *filter) judge(hook string, p packet) string {
	for _, rule := range f.rules[hook] {
		if verdict := f.try(rule, p); verdict != "" {
			return verdict
		}
	}
	return "accept"
}

// try applies one rule; empty is no verdict.
func (f *filter) try(rule []string, p packet) string {
	for word := rule; len(word) > 0; {
		n, ok := 0, true
		switch word[0] {
		case "iif", "icmp", "icmpv6":
			return "" // Answers of the node that rejects, which the world does not send.
		case "update":
			n = slices.Index(word, "}") + 1
			f.young[word[1]+p.flow] = true
		case "ip", "ip6":
			if word[2] == "." { // A flow.
				n = slices.IndexFunc(word, func(s string) bool { return strings.HasPrefix(s, "@") }) + 1
				ok = p.tcp && f.young[word[n-1]+p.flow]
				break
			}
			a := p.from
			if word[1] == "daddr" {
				a = p.to
			}
			within := func(q netip.Prefix) bool { return q.Contains(a) }
			set, named := strings.CutPrefix(word[2], "@")
			all := f.sets[set]
			if !named {
				all = []netip.Prefix{netip.MustParsePrefix(word[2])}
			}
			n, ok = 3, a.Is4() == (word[0] == "ip") && slices.ContainsFunc(all, within)
		case "tcp":
			switch word[3] {
			case "rst":
				return ""
			case "syn":
				n, ok = 6, p.tcp && p.syn
			case "(syn":
				n, ok = 8, p.tcp && p.syn && !p.ack
			}
		case "meta":
			if n, ok = 3, p.tcp; word[2] == "{" { // UDP as well.
				n, ok = 6, p.port > 0
			}
		case "th":
			n, ok = 3, word[2] == strconv.Itoa(int(p.port))
		case "numgen":
			percent, _ := strconv.ParseUint(word[5], 10, 64)
			n, ok = 6, f.dice.Uint64N(100) < percent
		case "counter":
			f.counters[word[2]]++
			n = 3
		case "accept", "drop", "reject":
			return word[0]
		}
		if n == 0 {
			panic("the world does not know the rule: " + strings.Join(rule, " "))
		}
		if !ok {
			return ""
		}
		word = word[n:]
	}
	return ""
}

// carry takes a packet through the hooks of the nodes on its way. Rejected means that its sender is told. The lock is
// held.
func (w *world) carry(p packet) (arrived, rejected bool) {
	places := w.places()
	from, known := places[p.from]
	to, there := places[p.to]
	if !known || !there {
		return false, false
	}
	if up, _ := to.m.node.Addresses(context.Background()); len(up) == 0 { // It is not running.
		return false, false
	}
	type stop struct {
		m    *machine
		hook string
	}
	stops := [6]stop{{from.m, "output"}, {from.m, "postrouting"}}
	way := stops[:2]
	if from.pod != "" {
		way = append(way[:0], stop{from.m, "prerouting"}, stop{from.m, "forward"}, stop{from.m, "postrouting"})
	}
	if from.m != to.m {
		way = append(way, stop{to.m, "prerouting"})
		if to.pod != "" {
			way = append(way, stop{to.m, "forward"}, stop{to.m, "postrouting"})
		}
	}
	for _, s := range way {
		for _, f := range s.m.tables {
			if w.inert || w.past && from.pod+to.pod != "" {
				continue
			}
			if verdict := f.judge(s.hook, p); verdict != "accept" {
				return false, verdict == "reject"
			}
		}
	}
	return true, false
}

// there and back again: whether a packet is answered, or its sender told that it was rejected.
func (w *world) exchange(p packet) (answered, rejected bool) {
	arrived, rejected := w.carry(p)
	if !arrived {
		return false, rejected
	}
	answered, _ = w.carry(p.back())
	return answered, false
}

// handshake opens a connection. What is lost by chance is sent again.
func (w *world) handshake(from, to netip.Addr) (connected, refused bool) {
	w.flows++
	p := packet{from: from, to: to, tcp: true, syn: true, flow: fmt.Sprintf("flow-%d", w.flows)}
	for range 20 {
		if connected, refused = w.exchange(p); connected || refused {
			break
		}
	}
	return connected, refused
}

// severed reports whether nothing connects from a node to an address.
func (w *world) severed(m *machine, to netip.AddrPort) bool {
	if _, known := w.places()[to.Addr()]; !known {
		return true
	}
	connected, _ := w.handshake(w.addressOf(place{m: m}, to.Addr()), to.Addr())
	return !connected
}

// renews reports whether a kubelet gets a request through, by the connection that it has or by a new one.
func (w *world) renews(m *machine) bool {
	if m.balanced {
		return true
	}
	for _, like := range []string{"10.0.0.1", "fc00::1"} {
		from := w.addressOf(place{m: m}, netip.MustParseAddr(like))
		to := w.addressOf(place{m: w.nodes["c-control-plane"]}, netip.MustParseAddr(like))
		if from == to {
			return true
		}
		old := packet{from: from, to: to, tcp: true, ack: true, flow: "kubelet"}
		for range 20 {
			if answered, _ := w.exchange(old); answered {
				return true
			}
		}
		if connected, _ := w.handshake(from, to); connected {
			return true
		}
	}
	return false
}

// entered returns the place that a command runs at, and the command.
func (w *world) entered(m *machine, argv []string) (place, []string) {
	if argv[0] != "nsenter" {
		return place{m: m}, argv
	}
	pod := "mysql-1"
	if argv[2] == strconv.Itoa(peerPID) {
		pod = peerPod
	}
	return place{m: m, pod: pod}, argv[5:]
}

// network carries out a command about the network, if it is one, and returns how long it takes. The lock is held.
func (w *world) network(
	m *machine, argv []string, stdin string,
) (out string, exit int, took time.Duration, known bool) {
	at, inner := w.entered(m, argv)
	line := strings.Join(inner, " ")
	if out, exit, known = w.lineCommand(m, argv); known {
		return out, exit, 0, true
	}
	switch pid, _ := m.mysqld(); {
	case at.pod == "mysql-1" && argv[2] != strconv.Itoa(pid):
		return "", 1, 0, true // It has ended.
	case argv[0] == "nft":
		out, exit = w.nft(m, line, stdin)
		return out, exit, 0, true
	case orders(line):
		out, exit = w.order(m, argv, stdin)
		return out, exit, 0, true
	case strings.HasPrefix(line, nodeagent.Path+" probe tcp"):
		out, took = w.probeTCP(at, inner[5:])
		return out, 0, took, true
	case strings.HasPrefix(line, nodeagent.Path+" probe dns"):
		out, took = w.probeDNS(at, inner[7:])
		return out, 0, took, true
	case strings.HasSuffix(line, "/root/etc/resolv.conf"):
		return "search trial.svc.cluster.local\nnameserver " + w.resolver + "\noptions ndots:5\n", 0, 0, true
	case strings.HasPrefix(line, nodeagent.Path+" probe ping"):
		out, took = w.probePing(at, inner)
		return out, 0, took, true
	case argv[0] == "cat" && strings.HasSuffix(line, "/net/snmp6"):
		who := place{m: m}
		if pid := strings.Split(argv[1], "/")[2]; pid != "1" {
			who, _ = w.entered(m, []string{"nsenter", "--target", pid, "--net", "--", "cat"})
		}
		return fmt.Sprintf("Icmp: InMsgs InEchos\nIcmp: 9 %d\nIcmp6InEchos %d\n", w.echoes[who][0], w.echoes[who][1]),
			0, 0, true
	}
	return "", 0, 0, false
}

func (w *world) nft(m *machine, line, stdin string) (string, int) {
	if line == "nft list tables" {
		out := "table inet kube-proxy\n"
		for _, name := range slices.Sorted(maps.Keys(m.tables)) {
			out += "table inet " + name + "\n"
		}
		return out, 0
	}
	if name, ok := strings.CutPrefix(line, "nft -j list counters table inet "); ok {
		f := m.tables[name]
		if f == nil {
			return "", 1
		}
		entries := []map[string]any{}
		for _, counter := range slices.Sorted(maps.Keys(f.counters)) {
			entries = append(entries, map[string]any{
				"counter": map[string]any{"name": counter, "packets": f.counters[counter]}})
		}
		return encode(map[string]any{"nftables": entries}), 0
	}
	var name string
	if _, err := fmt.Sscanf(stdin, "delete table inet %s\n", &name); line == "nft -f -" && err == nil {
		if m.tables[name] == nil {
			return "", 1
		}
		delete(m.tables, name)
		return "", 0
	}
	if text, ok := strings.CutPrefix(line, "nft add table inet "); ok {
		name, _, _ = strings.Cut(text, ";")
		delete(m.tables, name)
		return "", 0
	}
	if _, err := fmt.Sscanf(stdin, "add table inet %s\n", &name); line != "nft -f -" || err != nil {
		return "", 1
	}
	delete(m.tables, name)
	if strings.Contains(stdin, "table inet "+name+" {") {
		m.tables[name] = parseFilter(stdin)
	}
	return "", 0
}

func (w *world) probeTCP(at place, addresses []string) (string, time.Duration) {
	var answers []probe.Connect
	took := time.Duration(0)
	now := w.time(time.Now())
	for _, a := range addresses {
		to := netip.MustParseAddrPort(a).Addr()
		c := probe.Connect{Address: a, Begin: now, End: now}
		c.Connected, c.Refused = w.handshake(w.addressOf(at, to), to)
		if !c.Connected && !c.Refused {
			took = 1500 * time.Millisecond // Its timeout.
		}
		answers = append(answers, c)
	}
	return encode(answers), took
}

func (w *world) probeDNS(at place, addresses []string) (string, time.Duration) {
	var answers []probe.Answer
	took := time.Duration(0)
	now := w.time(time.Now())
	for _, a := range addresses {
		to := netip.MustParseAddrPort(a)
		for _, l4 := range []string{"udp", "tcp"} {
			l := probe.Answer{Address: a, Network: l4, Begin: now, End: now}
			l.Answered, _ = w.exchange(packet{from: w.addressOf(at, to.Addr()), to: to.Addr(), tcp: l4 == "tcp",
				port: to.Port(), syn: l4 == "tcp", flow: "lookup"})
			if w.unheard == l4 {
				w.unheard, l.Answered = "", false
			}
			if !l.Answered {
				took = 1500 * time.Millisecond // Its timeout.
			}
			answers = append(answers, l)
		}
	}
	return encode(answers), took
}

func (w *world) probePing(at place, argv []string) (string, time.Duration) {
	count, _ := strconv.Atoi(argv[4])
	interval, _ := time.ParseDuration(argv[6])
	took := time.Duration(count) * interval
	addresses, size := argv[9:], probe.MinEchoSize
	if addresses[0] == "--size" {
		size, _ = strconv.Atoi(addresses[1])
		addresses = addresses[2:]
	}
	var answers []probe.Echo
	now := w.time(time.Now())
	for _, a := range addresses {
		to := netip.MustParseAddr(a)
		e := probe.Echo{Address: a, Sent: count, Begin: now, End: now}
		p := packet{from: w.addressOf(at, to), to: to}
		family := map[bool]int{true: 0, false: 1}[to.Is4()]
		for range count {
			if arrived, _ := w.carry(p); !arrived {
				continue
			}
			n := w.echoes[w.places()[to]]
			n[family]++
			w.echoes[w.places()[to]] = n
			if answered, _ := w.carry(p.back()); answered {
				e.Answered++
			}
		}
		if w.stray && at.pod != "" {
			n := w.echoes[w.places()[to]]
			n[family]++
			w.echoes[w.places()[to]] = n
		}
		w.paced(at, to, &e, interval, size)
		if e.Answered < e.Sent {
			took += time.Second
		}
		answers = append(answers, e)
	}
	w.stray = w.stray && at.pod == ""
	return encode(answers), took
}

// flow is the agent's watch of an established flow.
func (w *world) flow(ctx context.Context, m *machine, cmd clusters.Command) error {
	at, _ := w.entered(m, cmd.Argv)
	to := netip.MustParseAddrPort(cmd.Argv[len(cmd.Argv)-1])
	out := json.NewEncoder(cmd.Stdout)
	heard := time.Now()
	w.mu.Lock()
	p := packet{from: w.addressOf(at, to.Addr()), to: to.Addr(), tcp: true, ack: true, flow: "watched " + to.String()}
	w.mu.Unlock()
	say := func(state probe.FlowState, reset bool) error {
		return out.Encode(probe.FlowReport{Address: to.String(), State: state, At: w.time(time.Now()),
			LastAck: w.time(heard), Pending: 9, Reset: reset})
	}
	if err := say(probe.FlowOpen, false); err != nil {
		return err
	}
	for ticks := time.NewTicker(200 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			ticks.Stop()
			return ctx.Err()
		case <-ticks.C:
		}
		w.mu.Lock()
		w.catchUp(m)
		answered, rejected := w.exchange(p)
		w.mu.Unlock()
		if rejected {
			ticks.Stop()
			return say(probe.FlowClosed, true)
		}
		if answered {
			heard = time.Now()
		}
		if time.Since(heard) >= 3*time.Second {
			ticks.Stop()
			return say(probe.FlowDead, false)
		}
	}
}
