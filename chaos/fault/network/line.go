package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// line is the life of a fault that changes how packets leave the victim's node: a queueing discipline of our own on
// every device by which the node reaches the others.
type line struct {
	env   fault.Env
	owner undo.Owner
	qdisc []string // What tc is told of it, its kind first.
	find  func(ctx context.Context) (sides, error)

	sides   sides           // Set by locate.
	through []string        // The devices, set by Undo.
	leases  evidence.Leases // When it was healed.
}

func newLine(step int, env fault.Env, qdisc ...string) (*line, error) {
	l := &line{env: env, owner: undo.Owner{Run: env.RunID, Step: step}, qdisc: qdisc}
	l.find = l.allNodes
	return l, l.owner.Check()
}

// Undo notes by which devices the node reaches the others, and has it remove our queueing disciplines from them.
func (l *line) Undo(ctx context.Context) ([]undo.Task, error) {
	if err := l.locate(ctx); err != nil {
		return nil, err
	}
	var err error
	if l.through, err = l.devices(ctx); err != nil {
		return nil, err
	}
	task := undo.Task{Node: l.env.Node}
	for _, d := range l.through {
		task.Actions = append(task.Actions, undo.RemoveQdisc(l.owner, d))
	}
	return []undo.Task{task}, nil
}

// allNodes returns the victim's node and the others, at most farEnds of them.
func (l *line) allNodes(ctx context.Context) (sides, error) {
	var found sides
	nodes, err := l.env.Cluster.Nodes(ctx)
	if err != nil {
		return found, fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range nodes {
		e, err := nodeEnd(ctx, l.env, n, 0)
		if err != nil {
			return found, err
		}
		if n.Name() == l.env.Node.Name() {
			found.mine = e
		} else if len(found.others) < farEnds {
			found.others = append(found.others, e)
		}
	}
	if found.mine.node == nil {
		return found, fmt.Errorf("list nodes: %q is not among them", l.env.Node.Name())
	}
	return found, nil
}

// locate finds both ends of the line.
func (l *line) locate(ctx context.Context) error {
	found, err := l.find(ctx)
	if err != nil {
		return err
	}
	l.sides = found
	if !l.sides.reachable() {
		return fmt.Errorf("find other nodes: none has an address family in common with %q", l.env.Node.Name())
	}
	return nil
}

// ways are those that leave the victim, or those that come to it.
func (l *line) ways(direction string) []way {
	return filter(l.sides.ways(), func(w way) bool { return w.direction == direction })
}

// devices asks the node by which devices it reaches the others.
func (l *line) devices(ctx context.Context) ([]string, error) {
	var all []string
	for _, w := range l.ways(directionOut) {
		for _, a := range w.addresses() {
			out, err := clusters.Run(ctx, l.env.Node, "ip", "-json", "route", "get", a.String())
			if err != nil {
				return nil, fmt.Errorf("ask for the way to %s: %w", a, err)
			}
			var routes []struct {
				Device string `json:"dev"`
			}
			if err := json.Unmarshal([]byte(out), &routes); err != nil || len(routes) == 0 || routes[0].Device == "" {
				return nil, fmt.Errorf("ask for the way to %s: no device in %.120q", a, out)
			}
			if d := routes[0].Device; !slices.Contains(all, d) {
				all = append(all, d)
			}
		}
	}
	return all, nil
}

// apply makes the queueing disciplines. A device that has one of somebody else's is left alone, which is an
// error.
func (l *line) apply(ctx context.Context) error {
	if len(l.through) == 0 {
		return errors.New("no device is known by which the node reaches the others: Undo notes them first")
	}
	for _, d := range l.through {
		add := append([]string{"tc", "qdisc", "add", "dev", d, "root", "handle", l.owner.Qdisc()}, l.qdisc...)
		if _, err := clusters.Run(ctx, l.env.Node, add...); err != nil {
			return fmt.Errorf("give device %q a queueing discipline of ours: %w", d, err)
		}
	}
	return nil
}

// there returns our queueing disciplines; none is an error.
func (l *line) there(ctx context.Context) ([]undo.Qdisc, error) {
	ours, err := undo.ListQdiscs(ctx, undo.On(l.env.Node), l.owner)
	if err == nil && len(ours) == 0 {
		err = fmt.Errorf("no device has the queueing discipline %s %s", l.qdisc[0], l.owner.Qdisc())
	}
	return ours, err
}

// echoed sends a volley on a way, to all of its addresses at once.
func (l *line) echoed(ctx context.Context, w way, v volley) ([]heard, error) {
	answers, err := probePing(ctx, w.from, w.addresses(), v)
	if err != nil {
		return nil, err
	}
	all := make([]heard, len(answers))
	for i, e := range answers {
		all[i] = heard{path: path{from: w.from.name, to: netip.AddrPortFrom(w.addresses()[i], 0)}, echo: e}
	}
	return all, nil
}

// heard is what came of a volley on one path.
type heard struct {
	path path
	echo probe.Echo
}

// String gives the round trips: "ICMP worker -> 172.18.0.2: 10 of 10 answered, at the fastest in 100.1ms".
func (h heard) String() string {
	return fmt.Sprintf("%s: %d of %d answered, at the fastest in %s, half of them in %s", h.path, h.echo.Answered,
		h.echo.Sent, brief(h.echo.Fastest), brief(h.echo.Median))
}

// brief rounds a time to what is worth reading.
func brief(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Microsecond)
}

func (h heard) fact() fault.Fact {
	return fault.Fact{Span: history.Between(h.echo.Begin, h.echo.End), Sentence: h.String()}
}

// Heal removes our queueing disciplines, if they are there.
func (l *line) Heal(ctx context.Context) error {
	err := l.release(ctx)
	if err != nil {
		return err
	}
	if l.leases, err = evidence.ReadLeases(ctx, l.env); err != nil && l.env.Log != nil {
		l.env.Log.Warn("read leases after the heal", "error", err)
	}
	return nil
}

// release removes what bears our mark.
func (l *line) release(ctx context.Context) error {
	return undo.CarryOut(ctx, undo.On(l.env.Node), l.owner)
}

// gone shows that no device has a queueing discipline of ours.
func (l *line) gone(ctx context.Context) (fault.Fact, error) {
	begin := l.env.Clock()
	ours, err := undo.ListQdiscs(ctx, undo.On(l.env.Node), l.owner)
	if err == nil && len(ours) > 0 {
		err = fmt.Errorf("device %q still has the queueing discipline %s", ours[0].Device, ours[0].Handle)
	}
	return fault.Fact{Span: history.Between(begin, l.env.Clock()),
		Sentence: fmt.Sprintf("no device has the queueing discipline %s", l.owner.Qdisc())}, err
}

// errNoAnswers is the error of a volley of which too few came back.
var errNoAnswers = errors.New("too few echo requests are answered to measure anything")
