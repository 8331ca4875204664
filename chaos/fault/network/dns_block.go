package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// DNSBlock drops the DNS requests of the victim's pod: UDP and TCP to port 53 of the servers that it is configured
// with, which may be a cache on its node, of the cluster's DNS Service and of its pods. The rules are on the pod's node
// and match before the address of the Service is translated. Other traffic passes.
func DNSBlock() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "dns-block",
		Summary: "Cuts the victim's pod off from the cluster's DNS and its own servers, UDP and TCP, IPv4 and IPv6.",
		Shown: "From within the pod, no DNS server that answered before answers over UDP or TCP, and our rules " +
			"count dropped packets of each family.",
		Healed: "The nftables table is deleted; from within the pod, every DNS server that answered before answers " +
			"over UDP and TCP.",
		Needs:    []string{"api", "nftables", "systemd"},
		Takes:    []plan.Part{plan.PartNetwork},
		Upstream: "NetworkChaos partition of kube-dns; k/k#56903",
	}, newDNSBlock)
}

// The cluster's DNS, whose Service has another name with some installers. Every cluster has the name that is looked up,
// and NXDOMAIN counts as an answer too.
const (
	dnsLabel   = "k8s-app=kube-dns"
	dnsPort    = 53
	dnsAsked   = "kubernetes.default.svc.cluster.local."
	dnsTimeout = 1500 * time.Millisecond
)

type dnsBlock struct {
	*filtered
	silentBefore map[asked]bool // Who did not answer: a dead server, or a Service without this port.
}

// asked is a server and how it is asked.
type asked struct{ network, address string }

func newDNSBlock(_ struct{}, _ plan.Fault, env fault.Env) (fault.Fault, error) {
	d := &dnsBlock{filtered: &filtered{
		Env: env, rules: filter{packets: packets{Direction: directionOut}, port: dnsPort}, pod: true,
	}}
	d.find = d.servers
	return d, nil
}

// servers returns the victim's pod and the DNS servers: its own, and the addresses of the Service and its ready pods.
func (d *dnsBlock) servers(ctx context.Context) (sides, error) {
	mine, err := victimEnd(ctx, d.Env)
	if err != nil {
		return sides{}, err
	}
	list := metav1.ListOptions{LabelSelector: dnsLabel}
	services, err := d.Kube.CoreV1().Services(metav1.NamespaceSystem).List(ctx, list)
	if err == nil && len(services.Items) == 0 {
		err = errors.New("there is none")
	}
	if err != nil {
		return sides{}, fmt.Errorf("list Services with label %q: %w", dnsLabel, err)
	}
	pods, err := d.Kube.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, list)
	if err != nil {
		return sides{}, fmt.Errorf("list pods with label %q: %w", dnsLabel, err)
	}
	texts, err := d.nameservers(ctx, mine)
	if err != nil {
		return sides{}, err
	}
	for _, s := range services.Items {
		for _, ip := range s.Spec.ClusterIPs {
			if ip != corev1.ClusterIPNone {
				texts = append(texts, ip)
			}
		}
	}
	for _, p := range pods.Items {
		for _, ip := range p.Status.PodIPs {
			if fault.Ready(&p) {
				texts = append(texts, ip.IP)
			}
		}
	}
	dns := end{name: "the cluster's DNS", port: dnsPort}
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return sides{}, fmt.Errorf("find the cluster's DNS: %w", err)
		}
		if !slices.Contains(dns.addresses, a.Unmap()) {
			dns.add(a)
		}
	}
	return sides{mine: mine, others: []end{dns}}, nil
}

// nameservers returns the DNS servers that a pod is configured with (resolv.conf(5)).
func (d *dnsBlock) nameservers(ctx context.Context, pod end) (all []string, err error) {
	text, err := clusters.Run(ctx, pod.node, "cat", fmt.Sprintf("/proc/%d/root/etc/resolv.conf", pod.pid))
	if err != nil {
		return nil, fmt.Errorf("read the DNS servers of %s: %w", pod.name, err)
	}
	for line := range strings.Lines(text) {
		if word := strings.Fields(line); len(word) > 1 && word[0] == "nameserver" {
			all = append(all, word[1])
		}
	}
	return all, nil
}

func (d *dnsBlock) ask(ctx context.Context) ([]probe.Answer, error) {
	servers := d.sides.out()[0].targets()
	if len(servers) == 0 {
		return nil, errors.New("there is no DNS server to ask")
	}
	answers, err := d.sides.mine.agent().DNS(ctx, dnsTimeout, dnsAsked, servers)
	if err != nil {
		return nil, fmt.Errorf("probe from %s: %w", d.sides.mine.name, err)
	}
	return answers, nil
}

// lookups returns a check that all servers answer the pod, except those that did not answer
// before, or that none does.
func (d *dnsBlock) lookups(want bool) fault.Show {
	return func(ctx context.Context) ([]fault.Fact, error) {
		answers, err := d.ask(ctx)
		if err != nil {
			return nil, err
		}
		var all []observation
		for _, l := range answers { // For example "UDP pod mysql-1 -> 10.96.0.10:53 is answered".
			if d.silentBefore[asked{l.Network, l.Address}] && !l.Answered {
				continue // It shows nothing.
			}
			came := map[bool]string{true: "is answered", false: "is not answered"}[l.Answered]
			sentence := fmt.Sprintf("%s %s -> %s %s", strings.ToUpper(l.Network), d.sides.mine.name, l.Address, came)
			all = append(all, observation{fault.Fact{Span: history.Between(l.Begin, l.End), Sentence: sentence},
				l.Answered == want})
		}
		return observed(all)
	}
}

// open finds the present servers and checks that all of them answer, except those that did not answer before.
func (d *dnsBlock) open(ctx context.Context) ([]fault.Fact, error) {
	if err := d.locate(ctx); err != nil {
		return nil, err
	}
	return d.lookups(true)(ctx)
}

// Inject checks that a server answers, then drops the pod's requests.
func (d *dnsBlock) Inject(ctx context.Context) error {
	if err := d.locate(ctx); err != nil {
		return err
	}
	d.silentBefore = map[asked]bool{}
	var silent []string
	for range rounds { // One lost request makes no dead server.
		answers, err := d.ask(ctx)
		if err != nil {
			return err
		}
		silent = nil
		for _, l := range answers {
			who := asked{l.Network, l.Address}
			before, known := d.silentBefore[who]
			d.silentBefore[who] = !l.Answered && (before || !known)
			if d.silentBefore[who] {
				silent = append(silent, fmt.Sprintf("%s %s: %s", strings.ToUpper(l.Network), l.Address, l.Error))
			}
		}
		if len(silent) == 0 {
			break
		}
	}
	if len(silent) == len(d.silentBefore) {
		return fmt.Errorf("no DNS server answers %s before the cut: %s", d.sides.mine.name, strings.Join(silent, "; "))
	}
	return d.apply(ctx)
}

// Confirm waits until no server answers and checks that our rules dropped requests.
func (d *dnsBlock) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx,
		fault.Await("no DNS server to answer the pod", time.Second, cutBound, d.lookups(false)), d.dropped)
}

// dropped checks that packets were cut over each family in which a server answered before.
func (d *dnsBlock) dropped(ctx context.Context) ([]fault.Fact, error) {
	begin := d.Clock()
	t, err := readCounters(ctx, d.Node, d.Owner)
	if err != nil {
		return nil, err
	}
	for _, to := range d.sides.out()[0].targets() {
		silent := d.silentBefore[asked{"udp", to.String()}] && d.silentBefore[asked{"tcp", to.String()}]
		if t["cut_"+directionOut+familyOf(to.Addr())] == 0 && !silent {
			return nil, fmt.Errorf("no packet to %s was cut: our rules have counted: %s", to, t)
		}
	}
	return d.Saw(begin, "our rules have counted: %s", t), nil
}

func (d *dnsBlock) Held(ctx context.Context) ([]fault.Fact, error) { return d.lookups(false)(ctx) }

// ConfirmHealed shows that the table is gone and that every present server answers, except those that did not answer
// before.
func (d *dnsBlock) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, d.tableGone,
		fault.Await("every DNS server to answer the pod", time.Second, healedBound, d.open))
}
