package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent/volfault"
	"github.com/seatrial/seatrial/chaos/plan"
)

// FileTruncate truncates a file of the victim's volume to half its pages of 16 KiB and syncs it, as a file system
// repair does that drops what it cannot place. It is declared corruption: if the checks of a trial find nothing, the
// verdict is UNKNOWN.
func FileTruncate() fault.Definition {
	return damages(fault.Definition{
		Name:     "file-truncate",
		Summary:  "Permanently cuts off the second half of a file in the victim's volume; the checks must find it.",
		Shown:    "The victim sees the file at its new size.",
		Healed:   "Not undone: the damage stays for the checks to find. The volume can be read and written.",
		Upstream: "e2fsck(8), lost blocks",
	}, volfault.Truncate, func(done volfault.Damage, seen volfault.FileView) string {
		switch {
		case done.Length == 0:
			return "nothing of it was cut off"
		case seen.Size != done.Offset:
			return fmt.Sprintf("it has %d bytes, want %d", seen.Size, done.Offset)
		}
		return ""
	})
}

// PageFlip inverts 64 bytes on disk in a page of 16 KiB and drops the page from the page cache, as if the disk returned
// wrong data. The page is the one with content nearest to the middle of the file, and the bytes are in its first half.
// A server with the page in memory does not notice until it reads it again, so restart it. It is declared corruption:
// if the checks of a trial find nothing, the verdict is UNKNOWN.
func PageFlip() fault.Definition {
	return damages(fault.Definition{
		Name:    "page-flip",
		Summary: "Permanently flips bytes in a page of a file in the victim's volume; the checks must find it.",
		Shown:   "The digest of the page that the victim reads has changed.",
		Healed:  "Not undone: the damage stays for the checks to find. The volume can be read and written.",
		// Page checksums exist for this.
		Upstream: "MySQL Reference Manual, innodb_checksum_algorithm",
	}, volfault.Flip, func(done volfault.Damage, seen volfault.FileView) string {
		switch {
		case done.After == done.Before:
			return fmt.Sprintf("page %d was not changed", done.Page)
		case seen.Page != done.After:
			return fmt.Sprintf("page %d has the SHA-256 %.12s, want %.12s, as it was written", done.Page, seen.Page,
				done.After)
		}
		return ""
	})
}

// damages completes the definition of a fault that damages a file. Amiss returns why the file, as the victim reads it,
// does not show the damage, or "" if it does.
func damages(d fault.Definition, kind volfault.Kind, amiss func(volfault.Damage, volfault.FileView) string,
) fault.Definition {
	d.Needs, d.Takes, d.Lasts = []string{"systemd"}, []plan.Part{plan.PartVolume}, true
	d.Example = plan.Params{"file": "data/seatrial/quiet.ibd"}
	return fault.Define(d, func(p damageParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		return &damage{Env: env, kind: kind, file: p.File, amiss: amiss}, nil
	})
}

// damage permanently damages a file of the victim's volume. No undo is armed: the plan declares the damage, and the
// checks must find it.
type damage struct {
	fault.Env
	kind  volfault.Kind
	file  string // Relative to the directory that the pod mounts.
	amiss func(volfault.Damage, volfault.FileView) string

	pv   string
	done *volfault.Damage
}

func (d *damage) Inject(ctx context.Context) error {
	volumes, err := victims(ctx, d.Env)
	if err != nil {
		return err
	}
	if len(volumes) != 1 {
		return fmt.Errorf("pod %q has %d volumes on node %q: want one, to know whose file it is", d.Pod, len(volumes),
			d.Node.Name())
	}
	d.pv = volumes[0].PV
	reports, err := inflict(ctx, d.Env, d.kind, "--file", d.file, d.pv)
	if err != nil {
		return err
	}
	if len(reports) != 1 || reports[0].Damage == nil {
		return fmt.Errorf("damage file %q of volume %q: the node does not say what it did", d.file, d.pv)
	}
	d.done = reports[0].Damage
	return nil
}

func (d *damage) Confirm(ctx context.Context) ([]fault.Fact, error) { return d.Held(ctx) }

// Held reads the file again: the victim may have written to it.
func (d *damage) Held(ctx context.Context) ([]fault.Fact, error) {
	begin := d.Clock()
	seen, err := onVolumes[volfault.FileView](ctx, d.Env, "file", "--file", d.file,
		"--page", strconv.FormatInt(d.done.Page, 10), d.pv)
	if err != nil {
		return nil, fmt.Errorf("look at file %q of volume %q: %w", d.file, d.pv, err)
	}
	what := fmt.Sprintf("file %s of volume %s, seen by %s", d.file, d.pv, seen.By)
	if why := d.amiss(*d.done, seen); why != "" {
		return nil, errors.New(what + ": " + why)
	}
	return d.Saw(begin, "%s: %s", what, d.done), nil
}

// Heal does nothing: the damage stays for the checks to find.
func (d *damage) Heal(context.Context) error { return nil }

// ConfirmHealed states that the damage stays and shows that the volume can be read and written.
func (d *damage) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	stays := func(context.Context) ([]fault.Fact, error) {
		if d.done == nil {
			return d.Saw(d.Clock(), "no volume was damaged"), nil
		}
		return d.Saw(d.Clock(), "what was done to file %s of volume %s stays, for the checks to find", d.file, d.pv),
			nil
	}
	return fault.All(ctx, stays, usableAgain(d.Env))
}

type damageParams struct {
	// File is the file to damage on the victim's volume: a slash-separated path relative to the directory that the pod
	// mounts, for example "data/seatrial/quiet.ibd". The checks must find the damage.
	File string `json:"file"`
}

func (p damageParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	if !fs.ValidPath(p.File) || p.File == "." || len(p.File) > 255 || strings.ContainsFunc(p.File, unprintable) {
		errs.Add("file", "use a relative path with slashes and without .., of printable characters",
			"%q is not one of a file in a volume", p.File)
	}
	return errs
}
