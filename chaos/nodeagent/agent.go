// Package nodeagent is the client of the agent, Seatrial's program on every node. It goes through the container runtime
// or a login, and so also reaches a node whose network is cut.
package nodeagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters"
)

// Path is the agent's path on every node.
const Path = clusters.AgentPath

// Agent is the agent on one node.
type Agent struct {
	Node clusters.Node
	// Prefix is put before the command, for example nsenter into the network of a pod.
	Prefix []string
}

// On returns the agent on a node.
func On(node clusters.Node) Agent { return Agent{Node: node} }

// InNetworkOf returns the agent in the network namespace of a process of its node.
func (a Agent) InNetworkOf(pid int) Agent {
	return Agent{Node: a.Node, Prefix: []string{"nsenter", "--target", strconv.Itoa(pid), "--net", "--"}}
}

func (a Agent) argv(args []string) []string { return slices.Concat(a.Prefix, []string{Path}, args) }

// Call runs a command of the agent and decodes its answer, unless answer is nil. Stdin may be empty. The error names
// the command and, if the agent failed, wraps *clusters.ExitError; an answer beside it is decoded.
func (a Agent) Call(ctx context.Context, answer any, stdin []byte, args ...string) error {
	cmd := clusters.Command{Argv: a.argv(args)}
	if len(stdin) > 0 {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	res, err := a.Node.Exec(ctx, cmd)
	var exit *clusters.ExitError
	if answer != nil && (err == nil || errors.As(err, &exit) && len(res.Stdout) > 0) {
		bad := json.Unmarshal(res.Stdout, answer)
		if bad != nil {
			bad = fmt.Errorf("decode answer %.80q: %w", res.Stdout, bad)
		} else if clock, unknown := a.clockOf(ctx); unknown != nil {
			bad = unknown
		} else {
			convert(answer, clock)
		}
		err = errors.Join(err, bad)
	}
	if err != nil {
		return fmt.Errorf("agent %s on node %q: %w", name(args), a.Node.Name(), err)
	}
	return nil
}

// name returns the command in arguments: at most two words before the first flag.
func name(args []string) string {
	words := args[:min(len(args), 2)]
	if i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") }); i >= 0 {
		words = words[:i]
	}
	return strings.Join(words, " ")
}

// Processes returns the node's processes that match a query.
func (a Agent) Processes(ctx context.Context, q probe.Query) (found probe.Processes, err error) {
	args := []string{"probe", "process"}
	for _, pid := range q.PIDs {
		args = append(args, "--pid", strconv.Itoa(pid))
	}
	for _, uid := range q.PodUIDs {
		args = append(args, "--pod", uid)
	}
	for _, name := range q.Programs {
		args = append(args, "--program", name)
	}
	return found, a.Call(ctx, &found, nil, args...)
}

// Clock reads the clocks of the node.
func (a Agent) Clock(ctx context.Context) (read probe.Clock, err error) {
	return read, a.Call(ctx, &read, nil, "clock")
}

// Connect tries to connect to every address once, concurrently. The answers are in the order of the addresses.
func (a Agent) Connect(ctx context.Context, timeout time.Duration, addresses []netip.AddrPort) (
	[]probe.Connect, error,
) {
	return each(ctx, a, texts(addresses), func(c probe.Connect) string { return c.Address },
		"probe", "tcp", "--timeout", timeout.String())
}

// DNS asks servers for a name over UDP and TCP, concurrently. The answers are in the order of the servers, UDP first.
func (a Agent) DNS(ctx context.Context, timeout time.Duration, name string, servers []netip.AddrPort) (
	answers []probe.Answer, err error,
) {
	args := []string{"probe", "dns", "--timeout", timeout.String(), "--name", name}
	return answers, a.Call(ctx, &answers, nil, append(args, texts(servers)...)...)
}

// Ping sends a volley of ICMP echo requests to every address, concurrently. The answers are in the order of the
// addresses.
func (a Agent) Ping(ctx context.Context, addresses []netip.Addr, v probe.Volley) ([]probe.Echo, error) {
	args := []string{"probe", "ping", "--count", strconv.Itoa(v.Count), "--interval", v.Interval.String(),
		"--timeout", v.Timeout.String()}
	if v.Size > 0 {
		args = append(args, "--size", strconv.Itoa(v.Size))
	}
	return each(ctx, a, texts(addresses), func(e probe.Echo) string { return e.Address }, args...)
}

func texts[A fmt.Stringer](addresses []A) []string {
	all := make([]string, len(addresses))
	for i, a := range addresses {
		all[i] = a.String()
	}
	return all
}

// each runs a command that answers for each address, and checks that it has.
func each[T any](ctx context.Context, a Agent, addresses []string, of func(T) string, args ...string) ([]T, error) {
	var answers []T
	if err := a.Call(ctx, &answers, nil, append(args, addresses...)...); err != nil {
		return nil, err
	}
	if !slices.EqualFunc(answers, addresses, func(t T, address string) bool { return of(t) == address }) {
		return nil, fmt.Errorf("the agent's answer %.200q is not for %v", fmt.Sprint(answers), addresses)
	}
	return answers, nil
}

// Flow opens a TCP connection to an address and watches it for at most life; it is dead after nothing was heard for
// silence. Flow returns once bytes were acknowledged. The watch outlives ctx: stop it.
func (a Agent) Flow(ctx context.Context, to netip.AddrPort, silence, life time.Duration) (
	*Stream[probe.FlowReport], error,
) {
	s := start[probe.FlowReport](ctx, a, false, "probe", "flow",
		"--silence", silence.String(), "--watch", life.String(), to.String())
	r, err := s.Next(ctx)
	if err == nil && r.State != probe.FlowOpen {
		err = fmt.Errorf("it is %s: %s", r.State, r.Error)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open flow to %s: %w", to, err), s.Stop())
	}
	return s, nil
}

// clockOf relates the clock of the agent's times to the harness's.
func (a Agent) clockOf(ctx context.Context) (clusters.NodeClock, error) {
	node, ok := a.Node.(clusters.ClockedNode)
	if !ok {
		return clusters.NodeClock{}, nil // One kernel, one clock.
	}
	return node.BootClock(ctx)
}

// convert converts the times in an answer, a pointer, to the harness's clock. The tag clock:"from" marks an earliest
// time, clock:"to" a latest time. A time with clock:"node" is part of the identity of a process or boot and stays. 0 is
// never.
func convert(answer any, clock clusters.NodeClock) {
	if clock != (clusters.NodeClock{}) {
		convertValue(reflect.ValueOf(answer), clock, "")
	}
}

func convertValue(v reflect.Value, clock clusters.NodeClock, tag string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			convertValue(v.Elem(), clock, tag)
		}
	case reflect.Slice:
		for i := range v.Len() {
			convertValue(v.Index(i), clock, tag)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				convertValue(v.Field(i), clock, field.Tag.Get("clock"))
			}
		}
	default:
		at, ok := v.Addr().Interface().(*history.Time)
		if !ok || *at == 0 {
			return
		}
		from, to := clock.Span(int64(*at), int64(*at))
		switch tag {
		case "from":
			*at = history.Time(from)
		case "to":
			*at = history.Time(to)
		}
	}
}
