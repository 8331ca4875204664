package storage

import (
	"context"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
)

// onVolumes asks the agent on the victim for something about volumes.
func onVolumes[T any](ctx context.Context, env fault.Env, verb string, args ...string) (answer T, err error) {
	command := slices.Concat([]string{"damage", verb}, env.Owner.Flags(), args)
	return answer, nodeagent.On(env.Node).Call(ctx, &answer, nil, command...)
}

// inflict does harm to volumes. Each of them must be in the answer.
func inflict(ctx context.Context, env fault.Env, kind volfault.Kind, args ...string) ([]volfault.Report, error) {
	return onVolumes[[]volfault.Report](ctx, env, "inflict", append([]string{"--kind", string(kind)}, args...)...)
}

// look has volumes looked at as their victims see them.
func look(ctx context.Context, env fault.Env, pvs ...string) ([]volfault.Report, error) {
	reports, err := onVolumes[[]volfault.Report](ctx, env, "look", pvs...)
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
