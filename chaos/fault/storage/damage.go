package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// damage is what the faults are made of that damage a file of the victim's volume for good. There is nothing to undo,
// and nothing is armed: it is declared in the plan, and the checks must find it.
type damage struct {
	env   fault.Env
	owner undo.Owner
	kind  volfault.Kind
	file  string // Relative to the directory that the pod is given.
	// amiss returns why what the victim reads does not show the damage, "" when it does.
	amiss func(volfault.Damage, volfault.FileView) string

	pv   string
	done *volfault.Damage
}

// Inject damages the file.
func (d *damage) Inject(ctx context.Context) error {
	volumes, err := victims(ctx, d.env)
	if err != nil {
		return err
	}
	if len(volumes) != 1 {
		return fmt.Errorf("pod %q has %d volumes on node %q: want one, to know whose file it is", d.env.Pod,
			len(volumes), d.env.Node.Name())
	}
	d.pv = volumes[0].PV
	reports, err := inflict(ctx, d.env.Node, d.owner, d.kind, "--file", d.file, d.pv)
	if err != nil {
		return err
	}
	if len(reports) != 1 || reports[0].Damage == nil {
		return fmt.Errorf("damage file %q of volume %q: the node does not say what it did", d.file, d.pv)
	}
	d.done = reports[0].Damage
	return nil
}

// Confirm shows the damage as the victim reads the file.
func (d *damage) Confirm(ctx context.Context) ([]fault.Fact, error) { return d.Held(ctx) }

// Held looks at the file once more: its victim may have written it anew.
func (d *damage) Held(ctx context.Context) ([]fault.Fact, error) {
	begin := d.env.Clock()
	out, err := clusters.Run(ctx, d.env.Node, undo.AgentPath, "injury", "sight", "--run", d.owner.Run,
		"--step", strconv.Itoa(d.owner.Step), "--file", d.file, "--page", strconv.FormatInt(d.done.Page, 10), d.pv)
	if err != nil {
		return nil, fmt.Errorf("look at file %q of volume %q: %w", d.file, d.pv, err)
	}
	var seen volfault.FileView
	if err := json.Unmarshal([]byte(out), &seen); err != nil {
		return nil, fmt.Errorf("look at file %q of volume %q: decode answer %.80q: %w", d.file, d.pv, out, err)
	}
	if why := d.amiss(*d.done, seen); why != "" {
		return nil, fmt.Errorf("file %q of volume %q, seen by %s: %s", d.file, d.pv, seen.By, why)
	}
	return []fault.Fact{{Span: history.Between(begin, d.env.Clock()), Sentence: fmt.Sprintf(
		"file %s of volume %s, seen by %s: %s", d.file, d.pv, seen.By, d.done)}}, nil
}

// Heal does nothing: the damage is for the checks to find.
func (d *damage) Heal(context.Context) error { return nil }

// ConfirmHealed says that the damage stays, and shows that the volume around it can be read and written.
func (d *damage) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	volumes, err := victims(ctx, d.env)
	if err != nil {
		return nil, err
	}
	pvs := names(volumes)
	begin := d.env.Clock()
	words := []string{"no volume was damaged"}
	if d.done != nil {
		words[0] = fmt.Sprintf("what was done to file %s of volume %s stays, for the checks to find", d.file, d.pv)
	}
	if len(pvs) == 0 {
		words = append(words, fmt.Sprintf("no volume of pod %s is on the node", d.env.Pod))
	}
	what := fmt.Sprintf("the volume of pod %q to be readable and writable", d.env.Pod)
	err = await.Until(ctx, what, bootedPoll, mendBound, func(ctx context.Context) (bool, string, error) {
		if len(pvs) == 0 {
			return true, "", nil
		}
		reports, err := look(ctx, d.env.Node, d.owner, pvs...)
		if err != nil {
			return false, "", err
		}
		for _, r := range reports {
			if why := usable(r); why != "" {
				return false, why, nil
			}
		}
		words = append(words, fmt.Sprintf("%s can be read and written", strings.Join(pvs, ", ")))
		return true, "", nil
	})
	return []fault.Fact{{Span: history.Between(begin, d.env.Clock()), Sentence: strings.Join(words, "; ")}}, err
}

// damages makes the definition of a fault that damages a file.
func damages(d fault.Definition, kind volfault.Kind, amiss func(volfault.Damage, volfault.FileView) string,
) fault.Definition {
	d.Needs, d.Takes, d.Lasts = []string{"systemd"}, []plan.Part{plan.PartVolume}, true
	d.Example = plan.Params{"file": "data/seatrial/quiet.ibd"}
	return fault.Define(d, func(p damageParams, _ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
		owner := undo.Owner{Run: env.RunID, Step: step}
		return &damage{env: env, owner: owner, kind: kind, file: p.File, amiss: amiss}, owner.Check()
	})
}

type damageParams struct {
	// File is the file of the victim's volume that is damaged: a path with slashes, relative to the directory that the
	// pod is given, for example "data/seatrial/quiet.ibd". The checks must find the damage.
	File string `json:"file"`
}

// Validate implements fault.Validator.
func (p damageParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	if !fs.ValidPath(p.File) || p.File == "." || len(p.File) > 255 || strings.ContainsFunc(p.File, unprintable) {
		errs.Add("file", "use a relative path with slashes and without .., of printable characters",
			"%q is not one of a file in a volume", p.File)
	}
	return errs
}
