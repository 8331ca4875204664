package undo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The marks of a fault that deletes a Node object.
const (
	// HeldRegistration says that the node's Node object was deleted: a restarted kubelet registers it again.
	HeldRegistration = "registration"
	// HeldNode is on a node of the control plane what a deleted Node object had, see NodeWas.
	HeldNode = "node.json"
)

// ManifestDir is where kubeadm has the kubelet take static pods from. The kubelet reads every file in it, whatever its
// name ends with.
const ManifestDir = "/etc/kubernetes/manifests/"

// BesideManifests is the path at which the owner makes a manifest ready: in the file system of ManifestDir, so that it
// can be moved there at once, and where the kubelet does not look.
func BesideManifests(owner Owner) string {
	return path.Join(path.Dir(path.Clean(ManifestDir)), owner.Name()+".yaml")
}

// holding is what one owner holds.
type holding struct {
	owner  Owner
	things []string
}

// String names the owner and the things.
func (h holding) String() string {
	return strings.Join(append([]string{h.owner.Name()}, h.things...), " ")
}

// listHeld returns what is held on the node, in the order of the owners' names. It looks at what is there: a node that
// no fault ever held anything on has no directory for it.
func listHeld(ctx context.Context, run Runner) ([]holding, error) {
	dir := path.Clean(HeldDir)
	out, err := run(ctx, []string{
		"find", "/var/lib", "-ignore_readdir_race", "-mindepth", "1", "-maxdepth", "4",
		"!", "-path", path.Dir(dir), "!", "-path", dir, "!", "-path", HeldDir + "*", "-prune",
		"-o", "-path", HeldDir + "*", "-print",
	}, "")
	if err != nil {
		return nil, fmt.Errorf("look for what is below %s: %w", dir, err)
	}
	lines := strings.Fields(out)
	slices.Sort(lines)
	var all []holding
	for _, line := range lines {
		name, thing, within := strings.Cut(strings.TrimPrefix(line, HeldDir), "/")
		owner, ours := FromName(name)
		if !ours {
			continue
		}
		// What is in a directory need not come next to it: "r1-1-5" is between "r1-1" and "r1-1/kubelet".
		i := slices.IndexFunc(all, func(h holding) bool { return h.owner == owner })
		if i < 0 {
			i = len(all)
			all = append(all, holding{owner: owner})
		}
		if within {
			all[i].things = append(all[i].things, thing)
		}
	}
	return all, nil
}

// holdsStill reports whether the owner still holds that thing on the node, or, without one, anything.
func holdsStill(ctx context.Context, run Runner, owner Owner, thing string) (bool, error) {
	all, err := listHeld(ctx, run)
	return slices.ContainsFunc(all, func(h holding) bool {
		return h.owner == owner && (thing == "" || slices.Contains(h.things, thing))
	}), err
}

// held releases what is held on the node.
func held(ctx context.Context, run Runner, only Only, report *Report) error {
	all, err := listHeld(ctx, run)
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range all {
		if !only(h.owner) {
			continue
		}
		quicker, err := h.releaseOnce(ctx, run)
		if err != nil {
			errs = append(errs, fmt.Errorf("release %s: %w", h, err))
			continue
		}
		if quicker {
			continue
		}
		if len(h.things) == 1 && h.things[0] == HeldNode {
			continue
		}
		report.Held = append(report.Held, h.String())
	}
	return errors.Join(errs...)
}

// Release undoes what the owner holds on the node, if it does. The mark goes last.
func Release(ctx context.Context, run Runner, owner Owner) error {
	return held(ctx, run, func(o Owner) bool { return o == owner }, &Report{})
}

// releaseOnce releases what is held unless another heal is quicker, which is told and no error. One that is at it at
// the same moment may take a file away under this one, so an error is followed by a second try.
func (h holding) releaseOnce(ctx context.Context, run Runner) (quicker bool, err error) {
	for range 2 {
		if err = h.release(ctx, run); err == nil {
			return false, nil
		}
		still, again := holdsStill(ctx, run, h.owner, "")
		if again != nil {
			return false, errors.Join(err, again)
		}
		if !still {
			return true, nil
		}
	}
	return false, err
}

func (h holding) release(ctx context.Context, run Runner) error {
	gone := []string{"rm", "-rf", h.owner.Held("")}
	if slices.Contains(h.things, HeldNode) { // That is given back through the API, and released then.
		if len(h.things) == 1 {
			return nil
		}
		gone = []string{"rm", "-rf"}
		for _, thing := range h.things {
			if thing != HeldNode {
				gone = append(gone, h.owner.Held(thing))
			}
		}
	}
	if slices.Contains(h.things, HeldRegistration) {
		if _, err := systemctl(ctx, run, "restart the kubelet", "restart", "kubelet"); err != nil {
			return err
		}
	} // Anything else is a mark that was never finished, and nothing was done yet.
	_, err := run(ctx, gone, "")
	return err
}
