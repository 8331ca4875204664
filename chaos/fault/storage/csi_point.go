package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// CSIPoint sets a fault point in the shared disk's CSI driver, with our mark as its id. Calls of one method for the
// volume of the victim's pod fail, are delayed, hang, fail although the work was done, or succeed although it was not.
// Calls of the node service are hit on the victim's node, calls of the controller service on the control plane.
func CSIPoint() fault.Definition {
	return fault.Define(fault.Definition{
		Name: "csi-point",
		Summary: "Makes the CSI driver fail, delay, hold or fake the calls of one method for the victim's volume, or " +
			"stage a disk that is not readable yet.",
		Shown: "The running driver has read the fault point, and by the end of the hold it has hit at least " +
			"one call.",
		Healed:  "The fault point is cleared, and the driver does not list it and holds no call for it.",
		Needs:   []string{"systemd"},
		Storage: plan.StorageSharedDisk,
		// A detach fails although the disk stays attached; a kubelet is killed between two calls.
		Upstream: "k/k#121937, k/k#124334, k/k#142243",
		Example: plan.Params{
			"csi": plan.Params{"rpc": "NodeStageVolume", "act": "fail", "code": "Internal", "times": 1},
		},
	}, newCSIPoint)
}

type csiPointParams struct {
	CSI *csiCall `json:"csi,omitempty"`
}

// csiCall selects the calls of a method and what happens to them.
type csiCall struct {
	RPC   string        `json:"rpc"`             // The method, for example "NodeUnstageVolume".
	Act   string        `json:"act"`             // One of acts.
	Code  string        `json:"code,omitempty"`  // For fail and late: the gRPC code's name, for example "Internal".
	Delay plan.Duration `json:"delay,omitempty"` // For delay.
	Times int           `json:"times,omitempty"` // The number of calls to hit; 0 is all.
	Every bool          `json:"every,omitempty"` // Hit calls for every volume, not just the victim's.
}

// acts returns what a fault point can do to a call. In order: delay it; answer an error and do nothing; hold it until
// the heal; do it and answer an error; answer success and do nothing; do it on a disk that NodeStageVolume cannot read
// when it looks for a file system.
func acts() []string { return []string{"delay", "fail", "hold", "late", "lie", actUnready} }

const actUnready = "unready"

// capabilities is the question what the driver's node service can do, which the kubelet asks before it stages a volume.
const capabilities = "NodeGetCapabilities"

// codes returns the errors that a call can return (google.golang.org/grpc/codes).
func codes() []string {
	return []string{
		"Aborted", "AlreadyExists", "Canceled", "DataLoss", "DeadlineExceeded", "FailedPrecondition", "Internal",
		"InvalidArgument", "NotFound", "OutOfRange", "PermissionDenied", "ResourceExhausted", "Unauthenticated",
		"Unavailable", "Unimplemented", "Unknown",
	}
}

func (p csiPointParams) Validate(s plan.Setting) (errs plan.FieldErrors) {
	if p.CSI == nil {
		errs.Add("csi", "set it", "is missing for fault %q", s.Fault.Name)
		return errs
	}
	c := *p.CSI
	errs.OneOf("csi.rpc", "method", c.RPC, append(plan.CSIRPCs(), capabilities)...)
	switch {
	case c.RPC == capabilities && !c.Every:
		errs.Add("csi.every", "set it", "is missing: %q is about no volume", c.RPC)
	case c.RPC == capabilities && c.Act == "lie":
		errs.Add("csi.act", "use another one", "%q changes nothing, so it cannot lie", c.RPC)
	}
	errs.OneOf("csi.act", "act", c.Act, acts()...)
	if c.Act == actUnready && c.RPC != "NodeStageVolume" {
		errs.Add("csi.rpc", "use NodeStageVolume", "act %q is not for %q, which looks for no file system", c.Act, c.RPC)
	}
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
		errs.Add("csi.delay", fmt.Sprintf("use more than 0s and at most %s", plan.MaxBound), "%s is out of range",
			c.Delay)
	}
	errs.Range("csi.times", c.Times, 0, 1000)
	return errs
}

// readBound is how long the driver may take to read a point. The kernel notifies it, which takes milliseconds.
const readBound = 15 * time.Second

type csiPoint struct {
	fault.Env
	spec    csiCall
	service string // The driver's service: "node" or "controller".

	node    clusters.Node // Where the service runs. Set by locate.
	volumes string        // Whose calls are hit, for a sentence. Set by Inject.
}

func newCSIPoint(p csiPointParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
	if p.CSI == nil {
		return nil, errors.New("the plan does not say which call: set csi")
	}
	c := &csiPoint{Env: env, spec: *p.CSI, service: "controller", volumes: "every volume"}
	if strings.HasPrefix(c.spec.RPC, "Node") {
		c.service = "node"
	}
	return c, nil
}

// locate finds the node where the service runs.
func (c *csiPoint) locate(ctx context.Context) error {
	if c.service == "node" {
		c.node = c.Node
	}
	if c.node != nil {
		return nil
	}
	nodes, err := c.ControlPlane(ctx)
	if err != nil {
		return fmt.Errorf("find the driver's controller service: %w", err)
	}
	c.node = nodes[0]
	return nil
}

func (c *csiPoint) Undo(ctx context.Context) ([]undo.Task, error) {
	clearPoint := undo.Command(undo.ClearPoint(c.service, c.Owner.Name())...)
	err := c.locate(ctx)
	return []undo.Task{{Node: c.node, Actions: []undo.Action{clearPoint}}}, err
}

func (c *csiPoint) Inject(ctx context.Context) error {
	if err := c.locate(ctx); err != nil {
		return err
	}
	argv := []string{
		nodeagent.DiskPath, "points", "set", "--state", nodeagent.DiskStates + c.service, "--id", c.Owner.Name(),
		"--rpc", c.spec.RPC, "--action", c.spec.Act,
	}
	if !c.spec.Every {
		volume, err := c.VolumeHandle(ctx)
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
	what := fmt.Sprintf("disk's %s service on node %q to read fault point %q", c.service, c.node.Name(), c.Owner.Name())
	return c.until(ctx, what, func(list listing) (string, error) {
		p, ok := list.find(c.Owner.Name())
		if !p.Read {
			return "", fault.NotYet("it is set: %t; no running driver has read it: %s", ok, list.Error)
		}
		return fmt.Sprintf("the disk's %s service on node %q, pid %d, has read the fault point: %s at %s of %s",
			c.service, c.node.Name(), list.Driver.PID, c.spec.Act, c.spec.RPC, c.volumes), nil
	})
}

// Held checks that the point is set and hit a call. Without a hit it had no effect.
func (c *csiPoint) Held(ctx context.Context) ([]fault.Fact, error) {
	return fault.Judged(c.Env, c.list, func(list listing) (string, error) {
		p, ok := list.find(c.Owner.Name())
		switch {
		case !ok:
			return "", fmt.Errorf("fault point %q of the disk's %s service is gone", c.Owner.Name(), c.service)
		case p.Hits == 0:
			return "", fmt.Errorf("it had no effect: no call of %s for %s came while the fault point was set",
				c.spec.RPC, c.volumes)
		}
		sentence := fmt.Sprintf("the fault point took part in %d calls of %s for %s", p.Hits, c.spec.RPC, c.volumes)
		if c.spec.Act == "hold" {
			sentence += ", and holds " + p.holds()
		}
		return sentence, nil
	})(ctx)
}

func (c *csiPoint) Heal(ctx context.Context) error {
	if err := c.locate(ctx); err != nil {
		return err
	}
	if _, err := clusters.Run(ctx, c.node, undo.ClearPoint(c.service, c.Owner.Name())...); err != nil {
		return fmt.Errorf("clear fault point %q of the disk's %s service: %w", c.Owner.Name(), c.service, err)
	}
	return nil
}

func (c *csiPoint) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	if err := c.locate(ctx); err != nil {
		return nil, err
	}
	what := fmt.Sprintf("fault point %q to be gone and to hold no call", c.Owner.Name())
	return c.until(ctx, what, func(list listing) (string, error) {
		if p, there := list.find(c.Owner.Name()); there {
			return "", fault.NotYet("it is there, and holds %d calls", len(p.Holding))
		}
		return fmt.Sprintf("the disk's %s service on node %q has no fault point %q, and holds no call by it",
			c.service, c.node.Name(), c.Owner.Name()), nil
	})
}

// listing is the driver's list of fault points in a state directory.
type listing struct {
	Driver struct {
		PID int `json:"pid"` // The process that has read them.
	} `json:"driver"`
	Points []point `json:"points"`
	Error  string  `json:"error"` // Why the driver could not read them.
}

// point is one fault point.
type point struct {
	ID      string `json:"id"`
	Read    bool   `json:"read"` // Whether the running driver has read it.
	Hits    int    `json:"hits"` // The number of calls that it hit.
	Holding []struct {
		Call  string       `json:"call"`  // As in history.CSI.
		Since history.Time `json:"since"` // Boot clock.
	} `json:"holding"`
}

// until waits until is returns a sentence for the service's fault points.
func (c *csiPoint) until(ctx context.Context, what string, is func(listing) (string, error)) ([]fault.Fact, error) {
	return fault.Until(ctx, what, 100*time.Millisecond, readBound, fault.Judged(c.Env, c.list, is))
}

func (c *csiPoint) list(ctx context.Context) (listing, error) {
	l, err := clusters.Ask[listing](ctx, c.node, undo.ListPoints(c.service)...)
	if err != nil {
		return l, fmt.Errorf("list fault points: %w", err)
	}
	return l, nil
}

func (l listing) find(id string) (point, bool) {
	i := slices.IndexFunc(l.Points, func(p point) bool { return p.ID == id })
	if i < 0 {
		return point{}, false
	}
	return l.Points[i], true
}

// holds describes the calls that are held now.
func (p point) holds() string {
	if len(p.Holding) == 0 {
		return "none of them now: the callers have given up"
	}
	names := make([]string, len(p.Holding))
	for i, h := range p.Holding {
		names[i] = fmt.Sprintf("call %s since %s", h.Call, h.Since)
	}
	return strings.Join(names, ", ")
}
