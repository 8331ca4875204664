package heal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/seatrial/seatrial/chaos/mark"
)

// DiskServices are the services of the shared disk's driver that have fault points on a node. Each has a state
// directory of its name below mark.DiskStates.
func DiskServices() []string { return []string{"controller", "node"} }

// ListPoints is the command that lists the fault points of a service as JSON.
func ListPoints(service string) []string {
	return []string{mark.DiskPath, "points", "list", "--state", mark.DiskStates + service}
}

// ClearPoint is the command after which the service has no fault point of that id, whether it had one or not.
func ClearPoint(service, id string) []string {
	return []string{mark.DiskPath, "points", "clear", "--state", mark.DiskStates + service, "--id", id}
}

// HasDisk reports whether the shared disk's program is on the node.
func HasDisk(ctx context.Context, run Runner) (bool, error) {
	dir, name := path.Split(mark.DiskPath)
	// Unlike running it and looking at the error, this tells a program that is not there from a node that fails.
	out, err := run(ctx, []string{"find", path.Clean(dir), "-maxdepth", "1", "-name", name}, "")
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", mark.DiskPath, err)
	}
	return strings.TrimSpace(out) == mark.DiskPath, nil
}

// points clears the fault points of the shared disk's driver; calls that they hold go on then.
func points(ctx context.Context, run Runner, only Only, report *Report) error {
	there, err := HasDisk(ctx, run)
	if err != nil || !there {
		return err
	}
	var errs []error
	for _, service := range DiskServices() {
		out, err := run(ctx, ListPoints(service), "")
		if err != nil {
			errs = append(errs, fmt.Errorf("list fault points of the disk's %s service: %w", service, err))
			continue
		}
		var list struct {
			Points []struct {
				ID string `json:"id"`
			} `json:"points"`
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			errs = append(errs, fmt.Errorf("list fault points of the disk's %s service: decode answer %.80q: %w", service,
				out, err))
			continue
		}
		for _, p := range list.Points {
			owner, ours := mark.FromName(p.ID)
			if !ours || !only(owner) {
				continue
			}
			if _, err := run(ctx, ClearPoint(service, p.ID), ""); err != nil {
				errs = append(errs, fmt.Errorf("clear fault point %q of the disk's %s service: %w", p.ID, service, err))
				continue
			}
			report.Points = append(report.Points, p.ID)
		}
	}
	return errors.Join(errs...)
}
