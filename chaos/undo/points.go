package undo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// ListPoints is the command that lists the fault points of a service as JSON.
func ListPoints(service string) []string {
	return []string{DiskPath, "points", "list", "--state", DiskStates + service}
}

// ClearPoint is the command after which the service has no fault point of that id, whether it had one or not.
func ClearPoint(service, id string) []string {
	return []string{DiskPath, "points", "clear", "--state", DiskStates + service, "--id", id}
}

// diskServices returns the services of the shared disk's driver that keep state on the node; none without its program.
// It looks at what is there: to ask the program for a service that was never started is an error, and so is a node
// that fails.
func diskServices(ctx context.Context, run Runner) ([]string, error) {
	dir, name := path.Split(DiskPath)
	out, err := run(ctx, []string{"find", path.Clean(dir), "-maxdepth", "1", "-name", name}, "")
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", DiskPath, err)
	}
	if strings.TrimSpace(out) != DiskPath {
		return nil, nil
	}
	out, err = run(ctx, []string{
		"find", "/var/lib", "-ignore_readdir_race", "-mindepth", "3", "-maxdepth", "3", "-type", "d",
		"-path", DiskStates + "*",
	}, "")
	if err != nil {
		return nil, fmt.Errorf("look for what is below %s: %w", DiskStates, err)
	}
	var services []string
	for line := range strings.Lines(out) {
		services = append(services, strings.TrimPrefix(strings.TrimSpace(line), DiskStates))
	}
	slices.Sort(services)
	return services, nil
}

// points clears the fault points of the shared disk's driver; calls that they hold go on then.
func points(ctx context.Context, run Runner, only Only, report *Report) error {
	services, err := diskServices(ctx, run)
	if err != nil {
		return err
	}
	var errs []error
	for _, service := range services {
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
			errs = append(errs, fmt.Errorf("list fault points of the disk's %s service: decode answer %.80q: %w",
				service, out, err))
			continue
		}
		for _, p := range list.Points {
			owner, ours := FromName(p.ID)
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
