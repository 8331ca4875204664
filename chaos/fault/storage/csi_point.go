package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// CSIPoint returns the fault that makes the shared disk's CSI driver misbehave in the calls of one method for the
// volume of the victim's pod: they fail, come late, are held, fail although the work was done, or succeed although
// nothing was done.
//
// What: a fault point of the driver, with our mark in its id. Calls of the node service go wrong on the victim's node,
// those of the controller service on the control plane.
//
// Shown: the running driver has read the point. That it took part in a call is shown at the end of the hold: without
// one it had no effect.
//
// Healed: the point is cleared, and calls that it held go on; the driver's list has no point of ours. A timer on the
// node clears it when nobody heals it.
func CSIPoint() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "csi-point",
		Summary: "Makes the CSI driver fail, delay, hold or lie in the calls of one method for the victim's volume.",
		Shown: "The running driver has read the fault point; at the end of the hold, it has taken part in a call at " +
			"least.",
		Healed:  "The fault point is cleared, and what it held goes on; the driver lists no point of ours.",
		Needs:   []string{"systemd"},
		Storage: plan.StorageSharedDisk,
		// A detach that fails although the disk stays attached; a kubelet killed between two calls.
		Upstream: "k/k#121937, k/k#124334",
		Example: plan.Params{
			"csi": plan.Params{"rpc": "NodeStageVolume", "act": "fail", "code": "Internal", "times": 1},
		},
	}, newCSIPoint)
}

type csiPointParams struct {
	CSI *csiCall `json:"csi,omitempty"`
}

// csiCall says what happens to the calls of one method for the victim's volume, or for every volume.
type csiCall struct {
	RPC   string        `json:"rpc"`             // The method's name, for example "NodeUnstageVolume".
	Act   string        `json:"act"`             // One of acts.
	Code  string        `json:"code,omitempty"`  // Of fail and late: the gRPC code's name, for example "Internal".
	Delay plan.Duration `json:"delay,omitempty"` // Of delay.
	Times int           `json:"times,omitempty"` // How many calls; 0 is all of them.
	Every bool          `json:"every,omitempty"` // The calls for every volume, and not for the victim's alone.
}

// acts returns what a fault point can do to a call: do it later; answer an error and do nothing; hold it until the
// fault is healed; do it and answer an error; answer success and do nothing.
func acts() []string { return []string{"delay", "fail", "hold", "late", "lie"} }

// codes returns the errors that a call can be answered with (google.golang.org/grpc/codes).
func codes() []string {
	return []string{
		"Aborted", "AlreadyExists", "Canceled", "DataLoss", "DeadlineExceeded", "FailedPrecondition", "Internal",
		"InvalidArgument", "NotFound", "OutOfRange", "PermissionDenied", "ResourceExhausted", "Unauthenticated",
		"Unavailable", "Unimplemented", "Unknown",
	}
}

// Validate implements fault.Validator.
func (p csiPointParams) Validate(s plan.Setting) (errs plan.FieldErrors) {
	if p.CSI == nil {
		errs.Add("csi", "set it", "is missing for fault %q", s.Fault.Name)
		return errs
	}
	c := *p.CSI
	errs.OneOf("csi.rpc", "method", c.RPC, plan.CSIRPCs()...)
	errs.OneOf("csi.act", "act", c.Act, acts()...)
	switch fails := c.Act == "fail" || c.Act == "late"; {
	case fails:
		errs.OneOf("csi.code", "code", c.Code, codes()...)
	case c.Code != "":
		errs.Add("csi.code", "leave it out", "act %q answers no code of its own", c.Act)
	}
	switch {
	case c.Act != "delay" && c.Delay != 0:
		errs.Add("csi.delay", "leave it out", "act %q has no delay", c.Act)
	case c.Act == "delay" && (c.Delay <= 0 || c.Delay.D() > plan.MaxBound):
		errs.Add(
			"csi.delay",
			fmt.Sprintf("use more than 0s and at most %s", plan.MaxBound),
			"%s is out of range",
			c.Delay,
		)
	}
	errs.Range("csi.times", c.Times, 0, 1000)
	return errs
}

// readBound is how long the driver may take to read a point. It is told by the kernel, and takes milliseconds.
const readBound = 15 * time.Second

type csiPoint struct {
	env     fault.Env
	owner   undo.Owner
	spec    csiCall
	service string // Of the driver: "node" or "controller".

	node    clusters.Node // Where that service runs. Set by locate.
	volumes string        // Whose calls they are. Set by Inject.
}

func newCSIPoint(p csiPointParams, spec plan.Fault, step int, env fault.Env) (fault.Fault, error) {
	c := &csiPoint{
		env: env, owner: undo.Owner{Run: env.RunID, Step: step}, service: "controller",
		volumes: "every volume",
	}
	if p.CSI == nil {
		return nil, errors.New("the plan does not say which call: set csi")
	}
	c.spec = *p.CSI
	if strings.HasPrefix(c.spec.RPC, "Node") {
		c.service = "node"
	}
	return c, c.owner.Check()
}

// locate finds the node where the service runs.
func (c *csiPoint) locate(ctx context.Context) error {
	if c.service == "node" {
		c.node = c.env.Node
	}
	if c.node != nil {
		return nil
	}
	nodes, err := c.env.Cluster.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range nodes {
		if n.Role() == clusters.RoleControlPlane {
			c.node = n
			return nil
		}
	}
	return errors.New("find the driver's controller service: the cluster lists no node of the control plane")
}

// Undo has the node clear the point.
func (c *csiPoint) Undo(ctx context.Context) ([]undo.Task, error) {
	clearPoint := undo.Command(undo.ClearPoint(c.service, c.owner.Name())...)
	err := c.locate(ctx)
	return []undo.Task{{Node: c.node, Actions: []undo.Action{clearPoint}}}, err
}

// Inject finds out which volume it is, and sets the point.
func (c *csiPoint) Inject(ctx context.Context) error {
	if err := c.locate(ctx); err != nil {
		return err
	}
	argv := []string{
		undo.DiskPath, "points", "set", "--state", undo.DiskStates + c.service, "--id", c.owner.Name(),
		"--rpc", c.spec.RPC, "--action", c.spec.Act,
	}
	if !c.spec.Every {
		volume, err := evidence.VolumeHandle(ctx, c.env.Kube, c.env.Namespace, c.env.Pod)
		if err != nil {
			return err
		}
		c.volumes = "volume " + volume
		argv = append(argv, "--volume", volume)
	}
	if c.spec.Code != "" {
		argv = append(argv, "--code", c.spec.Code)
	}
	if c.spec.Delay > 0 {
		argv = append(argv, "--delay", c.spec.Delay.String())
	}
	if c.spec.Times > 0 {
		argv = append(argv, "--times", strconv.Itoa(c.spec.Times))
	}
	if _, err := clusters.Run(ctx, c.node, argv...); err != nil {
		return fmt.Errorf("set a fault point of the disk's %s service: %w", c.service, err)
	}
	return nil
}

// Confirm waits until the running driver has read the point.
func (c *csiPoint) Confirm(ctx context.Context) ([]fault.Fact, error) {
	var fact fault.Fact
	what := fmt.Sprintf("disk's %s service on node %q to read fault point %q", c.service, c.node.Name(), c.owner.Name())
	err := await.Until(ctx, what, 100*time.Millisecond, readBound, func(ctx context.Context) (bool, string, error) {
		begin := c.env.Clock()
		list, err := listPoints(ctx, c.node, c.service)
		if err != nil {
			return false, "", err
		}
		p, ok := list.find(c.owner.Name())
		if !p.Read {
			return false, fmt.Sprintf("it is set: %t; no running driver has read it: %s", ok, list.Error), nil
		}
		fact = fault.Fact{Span: history.Between(begin, c.env.Clock()), Sentence: fmt.Sprintf(
			"the disk's %s service on node %q, pid %d, has read the fault point: %s at %s of %s",
			c.service, c.node.Name(), list.Driver.PID, c.spec.Act, c.spec.RPC, c.volumes)}
		return true, "", nil
	})
	if err != nil {
		return nil, err
	}
	return []fault.Fact{fact}, nil
}

// Held shows that the point is there and took part in a call. One that did not has had no effect.
func (c *csiPoint) Held(ctx context.Context) ([]fault.Fact, error) {
	begin := c.env.Clock()
	list, err := listPoints(ctx, c.node, c.service)
	if err != nil {
		return nil, err
	}
	p, ok := list.find(c.owner.Name())
	if !ok {
		return nil, fmt.Errorf("fault point %q of the disk's %s service is gone", c.owner.Name(), c.service)
	}
	if p.Hits == 0 {
		return nil, fmt.Errorf("it had no effect: no call of %s for %s came while the fault point was set",
			c.spec.RPC, c.volumes)
	}
	sentence := fmt.Sprintf("the fault point took part in %d calls of %s for %s", p.Hits, c.spec.RPC, c.volumes)
	if c.spec.Act == "hold" {
		sentence += ", and holds " + p.holds()
	}
	return []fault.Fact{{Span: history.Between(begin, c.env.Clock()), Sentence: sentence}}, nil
}

// Heal clears the point, whether it is there or not.
func (c *csiPoint) Heal(ctx context.Context) error {
	if err := c.locate(ctx); err != nil {
		return err
	}
	if _, err := clusters.Run(ctx, c.node, undo.ClearPoint(c.service, c.owner.Name())...); err != nil {
		return fmt.Errorf("clear fault point %q of the disk's %s service: %w", c.owner.Name(), c.service, err)
	}
	return nil
}

// ConfirmHealed waits until the driver lists no point of ours.
func (c *csiPoint) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	if err := c.locate(ctx); err != nil {
		return nil, err
	}
	var fact fault.Fact
	what := fmt.Sprintf("fault point %q to be gone and to hold no call", c.owner.Name())
	err := await.Until(ctx, what, 100*time.Millisecond, readBound, func(ctx context.Context) (bool, string, error) {
		begin := c.env.Clock()
		list, err := listPoints(ctx, c.node, c.service)
		if err != nil {
			return false, "", err
		}
		p, there := list.find(c.owner.Name())
		fact = fault.Fact{Span: history.Between(begin, c.env.Clock()), Sentence: fmt.Sprintf(
			"the disk's %s service on node %q has no fault point %q, and holds no call by it", c.service, c.node.Name(),
			c.owner.Name())}
		return !there, fmt.Sprintf("it is there, and holds %d calls", len(p.Holding)), nil
	})
	if err != nil {
		return nil, err
	}
	return []fault.Fact{fact}, nil
}
