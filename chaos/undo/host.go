package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/durable"
)

// A node keeps each armed undo as a file named after the owner: in RecordDir, or in BootDir if a boot undoes it too.
const (
	RecordDir = "/var/lib/seatrial/undo/"
	BootDir   = "/run/seatrial/undo/"
)

const (
	recordSchema = 1
	recordExt    = ".json"
)

// unitDir holds the units of a node that outlive a reboot, and bootDir the links to those that every boot starts.
const (
	unitDir = "/etc/systemd/system/"
	bootDir = unitDir + "multi-user.target.wants/"
)

// Record is an armed undo as stored on its node.
type Record struct {
	Schema int `json:"schema"`
	Owner
	Deadline history.Time `json:"deadline" clock:"to"` // When the timer carries it out, on the node's boot clock.
	// Actions are carried out in order, also after one that failed.
	Actions []Action `json:"actions"`
}

// Runner runs a command and returns its standard output, also beside an error. A non-zero exit is an error.
type Runner func(ctx context.Context, argv []string, stdin string) (stdout string, err error)

// Report lists what was undone on a node.
type Report struct {
	Node   string   `json:"node,omitempty"`
	Undone []string `json:"undone"`        // Armed undos that were carried out, by owner.
	Did    []string `json:"did,omitempty"` // The lines that their actions printed.
	Power  string   `json:"power,omitempty"`
}

// Nothing reports that there was nothing to undo.
func (r Report) Nothing() bool { return len(r.Undone) == 0 && len(r.Did) == 0 && r.Power == "" }

// String lists what was undone, in one line.
func (r Report) String() string {
	said := slices.Concat([]string{strings.Join(r.Undone, " ")}, r.Did, []string{r.Power})
	return strings.Join(slices.DeleteFunc(said, func(s string) bool { return s == "" }), "; ")
}

// Host is the machine that this process runs on.
type Host struct {
	Root string // "/"; another directory in tests.
	Run  Runner
}

// file returns the path of the owner's record in a directory.
func (h Host) file(dir string, owner Owner) string {
	return filepath.Join(h.Root, dir, owner.Name()+recordExt)
}

// unit returns the path of the owner's unit, or of the link to it, in a directory.
func (h Host) unit(dir string, owner Owner) string {
	return filepath.Join(h.Root, dir, owner.Name()+".service")
}

// Arm stores an undo and then starts the timer that carries it out at its deadline. A boot, which ends the timer, has
// it run anew for as long; with untilBoot it makes the record void. The time it takes to store the record does not
// delay the undo.
func (h Host) Arm(ctx context.Context, r Record, untilBoot bool) error {
	life := r.Deadline.Sub(bootclock.Now())
	r.Schema = recordSchema
	if r.Actions == nil {
		r.Actions = []Action{}
	}
	dir := RecordDir
	if untilBoot {
		dir = BootDir
	}
	if err := h.write(h.file(dir, r.Owner), r); err != nil {
		return fmt.Errorf("keep the undo: %w", err)
	}
	if !untilBoot {
		if err := h.outliveBoot(r.Owner, life); err != nil {
			return fmt.Errorf("make the undo survive a reboot: %w", err)
		}
	}
	if err := h.stopTimer(ctx, r.Owner); err != nil {
		return err
	}
	if _, err := h.Run(ctx, startTimer(r.Owner, r.Deadline.Sub(bootclock.Now())), ""); err != nil {
		return fmt.Errorf("start the timer: %w", err)
	}
	if _, err := h.Run(ctx, []string{"systemctl", "is-active", r.Owner.Timer()}, ""); err != nil {
		return fmt.Errorf("ask for the timer: %w", err)
	}
	return nil
}

func startTimer(owner Owner, left time.Duration) []string {
	left = max(left, time.Millisecond)
	return append([]string{
		"systemd-run", "--quiet",
		"--collect", // A failed undo must not keep the unit's name.
		"--unit=" + owner.Unit(),
		"--on-active=" + strconv.FormatFloat(left.Seconds(), 'f', 3, 64) + "s",
		"--timer-property=AccuracySec=1ms", // The default is a minute.
		nodeagent.Path, "undo",
	}, owner.Flags()...)
}

// outliveBoot has every boot start the owner's timer while the record is there. It runs for a whole life: a machine's
// boot clock begins anew, and its wall clock may be off. This boot's systemd need not know the unit, so none is
// reloaded.
func (h Host) outliveBoot(owner Owner, life time.Duration) error {
	path, link := h.unit(unitDir, owner), h.unit(bootDir, owner)
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	err := durable.Write(path, fmt.Appendf(nil, `[Unit]
Description=Timer of an undo of Seatrial, after a boot
ConditionPathExists=%s

[Service]
Type=oneshot
ExecStart=-/usr/bin/%s
`, filepath.Join(RecordDir, owner.Name()+recordExt), strings.Join(startTimer(owner, life), " ")))
	if err != nil {
		return err
	}
	if err := os.Symlink("../"+filepath.Base(path), link); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.SyncDir(filepath.Dir(link))
}

func (h Host) write(path string, r Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// Undo locks RecordDir, wherever the record is.
	for _, dir := range []string{filepath.Dir(path), filepath.Join(h.Root, RecordDir)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return durable.WriteMode(path, append(data, '\n'), 0o600) // What an action restores may be secret.
}

// Disarm removes what starts the owner's timer at a boot, stops the timer and removes the record, if they exist. The
// record goes last: while anything is left of an undo, it is found by its record.
func (h Host) Disarm(ctx context.Context, owner Owner) error {
	boots, err := remove(h.unit(bootDir, owner), h.unit(unitDir, owner))
	if err != nil {
		return err
	}
	if boots { // This boot may be about to start the timer.
		_, _ = h.Run(ctx, []string{"systemctl", "stop", owner.Name() + ".service"}, "") // It is not loaded as a rule.
	}
	if err := h.stopTimer(ctx, owner); err != nil {
		return err
	}
	_, err = remove(h.file(RecordDir, owner), h.file(BootDir, owner))
	return err
}

// remove removes files, and reports whether there was any.
func remove(paths ...string) (found bool, err error) {
	for _, path := range paths {
		err := os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) { // Perhaps since another disarmed it.
			continue
		}
		if err := errors.Join(err, durable.SyncDir(filepath.Dir(path))); err != nil {
			return true, err
		}
		found = true
	}
	return found, nil
}

// stopTimer stops the owner's timer if it is active.
func (h Host) stopTimer(ctx context.Context, owner Owner) error {
	if _, err := h.Run(ctx, []string{"systemctl", "is-active", owner.Timer()}, ""); err != nil {
		return ctx.Err()
	}
	if _, err := h.Run(ctx, []string{"systemctl", "stop", owner.Timer()}, ""); err != nil {
		return fmt.Errorf("stop timer %q: %w", owner.Timer(), err)
	}
	return nil
}

// Armed returns the selected records, sorted by owner. One that cannot be read is an error beside the others, and is
// returned with its owner alone.
func (h Host) Armed(only Only) ([]Record, error) {
	all := []Record{}
	err := h.each(only, func(o Owner, r Record, err error) error {
		r.Owner = o
		all = append(all, r)
		return err
	})
	return all, err
}

// each calls do for the selected owners, sorted by name, with the record of each or why it cannot be read, and returns
// all errors.
func (h Host) each(only Only, do func(Owner, Record, error) error) error {
	owners, err := h.owners(only)
	if err != nil {
		return err
	}
	var errs []error
	for _, o := range owners {
		r, err := h.read(o)
		if !errors.Is(err, fs.ErrNotExist) { // Else it was disarmed since.
			errs = append(errs, do(o, r, err))
		}
	}
	return errors.Join(errs...)
}

// owners returns the selected owners of armed undos, sorted by name.
func (h Host) owners(only Only) ([]Owner, error) {
	var all []Owner
	for _, dir := range []string{RecordDir, BootDir} {
		entries, err := os.ReadDir(filepath.Join(h.Root, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list armed undos: %w", err)
		}
		for _, e := range entries {
			name, isRecord := strings.CutSuffix(e.Name(), recordExt)
			if owner, ours := FromName(name); isRecord && ours && owner.In(only) {
				all = append(all, owner)
			}
		}
	}
	slices.SortFunc(all, func(a, b Owner) int { return strings.Compare(a.Name(), b.Name()) })
	return slices.Compact(all), nil
}

func (h Host) read(owner Owner) (r Record, err error) {
	for _, dir := range []string{RecordDir, BootDir} {
		data, failed := os.ReadFile(h.file(dir, owner))
		if err = failed; errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err == nil && r.Schema != recordSchema {
			err = fmt.Errorf("schema is %d; this program reads %d", r.Schema, recordSchema)
		}
		break
	}
	if err != nil {
		return Record{}, fmt.Errorf("read undo %s: %w", owner.Name(), err)
	}
	return r, nil
}

// Undo carries out the selected undos and retries failed ones until bound. One process undoes at a time. A record stays
// until it is carried out.
func (h Host) Undo(ctx context.Context, only Only, bound time.Duration) (Report, error) {
	report := Report{Undone: []string{}}
	err := await.Until(ctx, "armed undos to be carried out", time.Second, bound,
		func(ctx context.Context) (bool, string, error) {
			owners, err := h.owners(only)
			if err != nil || len(owners) == 0 {
				return err == nil, "", err
			}
			dir, err := os.Open(filepath.Join(h.Root, RecordDir))
			if err != nil {
				return false, "", fmt.Errorf("lock the armed undos: %w", err)
			}
			err = durable.Flock(dir, unix.LOCK_EX|unix.LOCK_NB)
			if errors.Is(err, unix.EWOULDBLOCK) {
				return false, "another heal holds the lock", dir.Close()
			}
			if err == nil {
				err = h.undo(ctx, only, &report)
			}
			return err == nil, "", errors.Join(err, dir.Close())
		})
	return report, err
}

// undo carries out every record once.
func (h Host) undo(ctx context.Context, only Only, report *Report) error {
	return h.each(only, func(o Owner, r Record, err error) error {
		if err != nil {
			return await.Stop(err) // Waiting does not help.
		}
		did, err := h.carryOut(ctx, r)
		report.Did = append(report.Did, did...)
		if err == nil {
			err = h.Disarm(ctx, o)
		}
		if err != nil {
			return fmt.Errorf("carry out undo %s: %w", o.Name(), err)
		}
		report.Undone = append(report.Undone, o.Name())
		return nil
	})
}

// carryOut runs all actions of a record and returns the lines that they printed for the report.
func (h Host) carryOut(ctx context.Context, r Record) (did []string, err error) {
	var errs []error
	for _, a := range r.Actions {
		if len(a.Argv) == 0 {
			errs = append(errs, errors.New("an action has no command"))
			continue
		}
		out, err := h.Run(ctx, a.Argv, a.Stdin)
		errs = append(errs, err)
		if a.Tells {
			did = append(did, strings.FieldsFunc(out, func(r rune) bool { return r == '\n' })...)
		}
	}
	return did, errors.Join(errs...)
}

// WriteFile replaces the content of a file durably and atomically, unless it has that content.
func WriteFile(path string, content []byte) error {
	if now, err := os.ReadFile(path); err == nil && string(now) == string(content) {
		return nil
	}
	return durable.WriteMode(path, content, 0o600)
}
