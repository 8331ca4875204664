package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/seatrial/seatrial/chaos/injury"
	"github.com/seatrial/seatrial/chaos/mark"
	"github.com/seatrial/seatrial/clusters"
)

// injuryCommand asks the agent on a node for something about volumes.
func injuryCommand(ctx context.Context, node clusters.Node, owner mark.Owner, verb string, args ...string) (
	[]injury.Report, error,
) {
	argv := append([]string{mark.AgentPath, "injury", verb, "--run", owner.Run, "--step", strconv.Itoa(owner.Step)},
		args...)
	out, err := clusters.Run(ctx, node, argv...)
	if err != nil {
		return nil, fmt.Errorf("%s volumes: %w", verb, err)
	}
	var reports []injury.Report
	if err := json.Unmarshal([]byte(out), &reports); err != nil {
		return nil, fmt.Errorf("%s volumes: decode answer %.80q: %w", verb, out, err)
	}
	return reports, nil
}

// inflict does harm to volumes. Each of them must be in the answer.
func inflict(ctx context.Context, node clusters.Node, owner mark.Owner, kind injury.Kind, args ...string) (
	[]injury.Report, error,
) {
	return injuryCommand(ctx, node, owner, "inflict", append([]string{"--kind", string(kind)}, args...)...)
}

// look has volumes looked at as their victims see them.
func look(ctx context.Context, node clusters.Node, owner mark.Owner, pvs ...string) ([]injury.Report, error) {
	reports, err := injuryCommand(ctx, node, owner, "look", pvs...)
	if err == nil && len(reports) != len(pvs) {
		return nil, fmt.Errorf("look volumes: asked for %d, %d are in the answer", len(pvs), len(reports))
	}
	return reports, err
}

// tried returns what came of an access, and whether it was tried.
func tried(r injury.Report, op string) (injury.Try, bool) {
	for _, t := range r.Tries {
		if t.Op == op {
			return t, true
		}
	}
	return injury.Try{}, false
}

// usable returns why a volume can not be read and written by its victim, "" when it can.
func usable(r injury.Report) string {
	if !r.Mounted {
		return fmt.Sprintf("volume %s is not mounted", r.PV)
	}
	for _, op := range []string{injury.TryRead, injury.TryWrite} {
		if t, ok := tried(r, op); !ok || t.Error != "" {
			return fmt.Sprintf("volume %s: %s", r.PV, t)
		}
	}
	return ""
}
