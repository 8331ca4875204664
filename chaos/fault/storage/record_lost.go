package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// RecordLost takes away what the kubelet writes beside each mount of a CSI volume, for all pods of the workload on the
// victim's node. A kubelet that restarts reads it to learn what is mounted. It is not synced when it is written
// (saveVolumeData in pkg/volume/csi), so that a loss of power can take it away, too.
func RecordLost() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "volume-record-lost",
		Summary: "Takes the kubelet's records (vol_data.json) of the workload's volumes on the victim's node away.",
		Shown:   "None is in the directories of the workload's pods, and as many as there were lie beside.",
		Healed:  "Each is put back where its directory is still there; none lies beside.",
		Needs:   []string{"systemd"},
		Takes:   []plan.Part{plan.PartVolume},
		Storage: plan.StorageSharedDisk,
		// A restarted kubelet forgets the volume, which is then attached to another node.
		Upstream: "k/k#101791",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return &recordLost{Env: env}, nil })
}

const (
	podsDir = "/var/lib/kubelet/pods"
	record  = "vol_data.json"
)

type recordLost struct {
	fault.Env
	dirs []string // Of the workload's pods on the node.
}

// aside is the name of a record that was taken away.
func (l *recordLost) aside() string { return record + "." + l.Owner.Name() }

// find is the command that finds files by name in pod directories, without looking into volumes, and renames them.
func find(dirs []string, name, to string) []string {
	depth := "4" // volumes/PLUGIN/VOLUME/FILE
	if slices.Contains(dirs, podsDir) {
		depth = "5"
	}
	argv := slices.Concat([]string{"find"}, dirs, []string{"-maxdepth", depth, "-name", name})
	if to != "" {
		argv = append(argv, "-execdir", "mv", "-f", "{}", to, ";")
	}
	return argv
}

func (l *recordLost) Undo(context.Context) ([]undo.Task, error) {
	return l.Here(undo.Command(find([]string{podsDir}, l.aside(), record)...)), nil
}

func (l *recordLost) Inject(ctx context.Context) error {
	pods, err := l.PodsOn(ctx)
	if err != nil {
		return err
	}
	for _, p := range pods {
		if p.Namespace == l.Namespace {
			l.dirs = append(l.dirs, podsDir+"/"+string(p.UID))
		}
	}
	if len(l.dirs) == 0 {
		return fmt.Errorf("no pod of namespace %q is on node %q", l.Namespace, l.Node.Name())
	}
	_, err = clusters.Run(ctx, l.Node, find(l.dirs, record, l.aside())...)
	return err
}

func (l *recordLost) list(ctx context.Context, dirs []string, name string) ([]string, error) {
	out, err := clusters.Run(ctx, l.Node, find(dirs, name, "")...)
	if err != nil {
		return nil, fmt.Errorf("list records of volumes: %w", err)
	}
	return strings.Fields(out), nil
}

func (l *recordLost) Confirm(ctx context.Context) ([]fault.Fact, error) {
	begin := l.Clock()
	left, err := l.list(ctx, l.dirs, record)
	if err != nil {
		return nil, err
	}
	taken, err := l.list(ctx, l.dirs, l.aside())
	switch {
	case err != nil:
		return nil, err
	case len(left) > 0 || len(taken) == 0:
		return nil, fmt.Errorf("%d records are taken away, and left are %q", len(taken), left)
	}
	return l.Saw(begin, "%d records of volumes of %d pods are taken away, and none is left", len(taken), len(l.dirs)),
		nil
}

func (l *recordLost) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	begin := l.Clock()
	aside, err := l.list(ctx, []string{podsDir}, l.aside())
	if err == nil && len(aside) > 0 {
		err = fmt.Errorf("records are still taken away: %q", aside)
	}
	if err != nil {
		return nil, err
	}
	return l.Saw(begin, "no record of a volume is taken away"), nil
}
