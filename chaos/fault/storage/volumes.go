package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// injuryCommand asks the agent on a node for something about volumes.
func injuryCommand(ctx context.Context, node clusters.Node, owner undo.Owner, verb string, args ...string) (
	[]volfault.Report, error,
) {
	argv := append([]string{undo.AgentPath, "injury", verb, "--run", owner.Run, "--step", strconv.Itoa(owner.Step)},
		args...)
	out, err := clusters.Run(ctx, node, argv...)
	if err != nil {
		return nil, fmt.Errorf("%s volumes: %w", verb, err)
	}
	var reports []volfault.Report
	if err := json.Unmarshal([]byte(out), &reports); err != nil {
		return nil, fmt.Errorf("%s volumes: decode answer %.80q: %w", verb, out, err)
	}
	return reports, nil
}

// inflict does harm to volumes. Each of them must be in the answer.
func inflict(ctx context.Context, node clusters.Node, owner undo.Owner, kind volfault.Kind, args ...string) (
	[]volfault.Report, error,
) {
	return injuryCommand(ctx, node, owner, "inflict", append([]string{"--kind", string(kind)}, args...)...)
}

// look has volumes looked at as their victims see them.
func look(ctx context.Context, node clusters.Node, owner undo.Owner, pvs ...string) ([]volfault.Report, error) {
	reports, err := injuryCommand(ctx, node, owner, "look", pvs...)
	if err == nil && len(reports) != len(pvs) {
		return nil, fmt.Errorf("look volumes: asked for %d, %d are in the answer", len(pvs), len(reports))
	}
	return reports, err
}

// tried returns what came of an access, and whether it was tried.
func tried(r volfault.Report, op string) (volfault.Access, bool) {
	for _, t := range r.Tries {
		if t.Op == op {
			return t, true
		}
	}
	return volfault.Access{}, false
}

// usable returns why a volume can not be read and written by its victim, "" when it can.
func usable(r volfault.Report) string {
	if !r.Mounted {
		return fmt.Sprintf("volume %s is not mounted", r.PV)
	}
	for _, op := range []string{volfault.AccessRead, volfault.AccessWrite} {
		if t, ok := tried(r, op); !ok || t.Error != "" {
			return fmt.Sprintf("volume %s: %s", r.PV, t)
		}
	}
	return ""
}
