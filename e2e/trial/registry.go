package trial

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/chaosmesh"
	"github.com/seatrial/seatrial/chaos/fault/controlplane"
	"github.com/seatrial/seatrial/chaos/fault/network"
	"github.com/seatrial/seatrial/chaos/fault/node"
	"github.com/seatrial/seatrial/chaos/fault/object"
	"github.com/seatrial/seatrial/chaos/fault/storage"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/existing"
	"github.com/seatrial/seatrial/clusters/existing/link"
	"github.com/seatrial/seatrial/clusters/kind"
	"github.com/seatrial/seatrial/clusters/nodelogs"
	"github.com/seatrial/seatrial/e2e/certify/twin"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/observe/nodefacts"
	"github.com/seatrial/seatrial/fixtures"
	"github.com/seatrial/seatrial/fixtures/dataclient"
	"github.com/seatrial/seatrial/fixtures/external"
	"github.com/seatrial/seatrial/fixtures/light"
	"github.com/seatrial/seatrial/fixtures/localpv"
	"github.com/seatrial/seatrial/fixtures/mysql"
	"github.com/seatrial/seatrial/fixtures/shareddisk"
)

// DataClients returns the data clients that are built in, by name.
func DataClients() map[string]dataclient.Opener {
	return map[string]dataclient.Opener{"mysql": mysql.OpenStore}
}

// AllParts is the one registry: a new fault or workload is one new file and one line here. Each list is in
// alphabetical order; checks and scenarios have lists of their own beside them.
func AllParts() Parts {
	return Parts{
		Cases:  scenarios.Cases(),
		Checks: check.All(),
		Faults: append(controlplane.Components(),
			chaosmesh.Experiment(),
			controlplane.ForceDetachOff(),
			controlplane.APIReject(),
			network.Bandwidth(),
			network.Dark(),
			network.DNSBlock(),
			network.Delay(),
			network.Isolate(),
			network.Loss(),
			network.Partition(),
			network.PodPartition(),
			node.ClockStep(),
			node.ContainerFreeze(),
			node.ContainerKill(),
			node.Crash(),
			node.KubeProxyKill(),
			node.KubeletFreeze(),
			node.KubeletStarve(),
			node.KubeletKill(),
			node.KubeletStop(),
			node.Pause(),
			node.Reboot(),
			node.Reset(),
			node.RuntimeKill(),
			node.RuntimeStop(),
			node.Stop(),
			object.ClaimDelete(),
			object.Cordon(),
			object.Drain(),
			object.NodeDelete(),
			object.OutOfService(),
			object.PodDelete(),
			object.PodForceDelete(),
			object.PodQuota(),
			storage.CSIPoint(),
			storage.DeviceGone(),
			storage.FileTruncate(),
			storage.PageFlip(),
			storage.PowerLoss(),
			storage.RecordLost(),
			storage.VolumeFull(),
			storage.VolumeReadOnly(),
		),
		Scenarios: scenarios.All(),
		Storages: []fixtures.StorageDefinition{
			external.Claims(),
			localpv.Definition(),
			shareddisk.Definition(),
		},
		Workloads: []fixtures.Definition{
			external.Definition(),
			light.Definition(),
			mysql.Definition(),
		},
	}
}

// Provider is the kind of clusters that trials run on.
func Provider() clusters.Definition { return kind.Definition() }

// Access says how an existing cluster is reached.
type Access = existing.Options

// provider returns what opens the cluster of m.
func (m ClusterOptions) provider() (clusters.Provider, error) {
	if m.Access != nil {
		access := *m.Access
		access.Log = m.Log
		scripts := []string{nodefacts.Script, nodelogs.Script}
		if m.Tampers {
			scripts = append(scripts, mysql.FlipScript)
		}
		for _, s := range scripts {
			access.Faults.Scripts = append(access.Faults.Scripts, link.ScriptSum(s))
		}
		return existing.New(access)
	}
	return NewProvider(m.Engine, m.Log)
}

// existingCan is what is known of every existing cluster, with a node hook or without.
func existingCan(hooked bool) clusters.Capabilities { return existing.Capabilities(hooked) }

func hookedNode(program, name string) clusters.Node { return existing.HookedNode(program, name) }

// RunsOn says on which kinds of clusters a fault can be carried out, and what that depends on: each kind, and "yes",
// "if ..." or "no: ...".
func RunsOn(d fault.Definition) [][2]string {
	onKind, kernel := kind.OnAnyMachine()
	onExisting := existing.Capabilities(true)
	depends := map[string]string{}
	for need, option := range kernel {
		onKind.Can, depends[need] = append(onKind.Can, need), "if the kernel has "+option
	}
	also := map[string]string{needChaosMesh: "if Chaos Mesh is installed"}
	onNodes := map[string]string{
		clusters.CanNFTables: "if every node has nftables", clusters.CanReboot: "if every node runs systemd",
		clusters.CanPower:   "with --node-hook",
		clusters.CanReset:   "if every node runs systemd, is no container, and has a kernel of its own",
		clusters.CanSystemd: "if every node runs systemd", clusters.CanStaticPods: "if kubeadm made the control plane",
	}
	needs := d.Needs
	if d.Storage == plan.StorageSharedDisk {
		needs = append(slices.Clone(needs), clusters.CanSharedDir)
	}
	maps.Copy(depends, also)
	maps.Copy(onNodes, also)
	return [][2]string{{"kind", runsOn(needs, onKind, depends)}, {"existing", runsOn(needs, onExisting, onNodes)}}
}

// runsOn says whether clusters meet needs; depends are those that some of them meet.
func runsOn(needs []string, c clusters.Capabilities, depends map[string]string) string {
	var ifs []string
	lacks := c.Lacks(needs)
	for _, need := range needs {
		why, lacking := lacks[need]
		switch on := depends[need]; {
		case on != "" && !slices.Contains(ifs, on):
			ifs = append(ifs, on)
		case on == "" && lacking:
			return "no: " + why
		}
	}
	return cmp.Or(strings.Join(ifs, ", "), "yes")
}

// OpenExisting opens the cluster of a context of a kubeconfig. The caller closes it.
func OpenExisting(ctx context.Context, a Access, name string) (clusters.Closer, error) {
	p, err := existing.New(a)
	if err != nil {
		return nil, err
	}
	c, err := p.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.(clusters.Closer), nil
}

// CleanExisting removes what harnesses left in the cluster of a context.
func CleanExisting(ctx context.Context, a Access, name string) error {
	p, err := existing.New(a)
	if err != nil {
		return err
	}
	return p.Clean(ctx, name)
}

// ContextName returns the name of a context of a kubeconfig, the current one for an empty name.
func ContextName(a Access, name string) (string, error) {
	return existing.ContextName(a.Kubeconfig, name)
}

// NewProvider returns what opens clusters, with the container engine of that name or path.
func NewProvider(engine string, log *slog.Logger) (clusters.Provider, error) {
	return Provider().New(engine, log)
}

// LookAt checks an external workload that exists with its plan. It only reads. Its error is plan.FieldErrors if the
// plan cannot be carried out.
func LookAt(ctx context.Context, kube kubernetes.Interface, p plan.Plan) error {
	return external.Look(ctx, kube, p.Workload)
}

// manifests checks the manifests of an external workload with its plan.
func manifests(w plan.Workload) error { return external.Manifests(w) }

// drain is the fault that an upgrade empties a node with.
func drain(evictable bool) fault.Definition {
	if evictable {
		return object.Drain()
	}
	return object.Cordon()
}

// standIn replaces the image of a twin's StatefulSet by one that the nodes have, or by MySQL as a workload has it.
func standIn(set *appsv1.StatefulSet, nodes []corev1.Node, database string) (err error) {
	c := &set.Spec.Template.Spec.Containers[0]
	if c.Image == twin.Database {
		return mysql.StandIn(set, database)
	}
	c.Image, err = light.Image(nodes)
	return err
}

// installDisks installs the storage system of a twin and returns the provisioner of its classes.
func installDisks(ctx context.Context, env fixtures.Env, flags storagev1.CSIDriverSpec) (string, error) {
	return shareddisk.DriverName, (&shareddisk.Fixture{Env: env}).Furnish(ctx, flags)
}

func caps(parts Parts) plan.Caps {
	names := make([]string, 0, len(parts.Workloads))
	for _, w := range parts.Workloads {
		names = append(names, w.Name)
	}
	return fault.Caps(parts.Faults, names)
}

// Around is the plan that manifests of Chaos Mesh are put into.
type Around = chaosmesh.Around

// ImportMesh makes a plan of manifests of Chaos Mesh, in YAML or JSON. Its error is one of plan.FieldErrors, which name
// the fields.
func ImportMesh(parts Parts, manifests []byte, a Around) (plan.Plan, error) {
	a.Faults = fault.Caps(parts.Faults, nil).Faults
	return chaosmesh.Import(manifests, a)
}

// ReadPlan decodes a plan, numbers its steps if none has a number, and replaces the manifests in it by steps. Data that
// is manifests alone is imported, with a.
func ReadPlan(parts Parts, data []byte, a Around) (plan.Plan, error) {
	if chaosmesh.Is(data) {
		return ImportMesh(parts, data, a)
	}
	p, err := plan.Decode(data)
	if err != nil {
		return plan.Plan{}, err
	}
	if !slices.ContainsFunc(p.AllSteps(), func(s plan.Step) bool { return s.N != 0 }) {
		plan.Number(p.Steps)
	}
	return chaosmesh.Expand(p, fault.Caps(parts.Faults, nil).Faults)
}

// ReadCase decodes a case of a user's, completes it and checks it with the registered parts. Its error is
// plan.FieldErrors.
func ReadCase(parts Parts, data []byte) (plan.CaseFile, error) {
	f, err := plan.DecodeCase(data)
	if err != nil {
		return f, err
	}
	checks := make([]string, len(parts.Checks))
	for i, c := range parts.Checks {
		checks[i] = c.Name
	}
	if f.Plan, err = chaosmesh.Expand(f.Plan, fault.Caps(parts.Faults, nil).Faults); err != nil {
		return f, inPlan(err)
	}
	if f, err = f.Complete(caps(parts), checks); err != nil {
		return f, err
	}
	return f, inPlan(manifests(f.Plan.Workload))
}

// inPlan puts the fields of an error below that of the plan.
func inPlan(err error) error {
	if errs, ok := errors.AsType[plan.FieldErrors](err); ok {
		return errs.Under("plan")
	}
	return err
}
