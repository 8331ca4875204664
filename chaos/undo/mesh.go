package undo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// undoExperiments looks once for experiments of Chaos Mesh that bear our label, and has it end them. An object that it
// does not let go of is waited for: what the experiment did is still there. A state that is not empty says so.
func undoExperiments(ctx context.Context, run Runner, only Only, report *Report) (done bool, state string, err error) {
	kinds, err := meshKinds(ctx, run)
	if err != nil || len(kinds) == 0 {
		return err == nil, "", err
	}
	objects, err := listObjects(ctx, run, kinds, "--selector="+OwnerLabel)
	if err != nil {
		return false, "", err
	}
	var changes []change
	for _, o := range objects {
		owner, ours := FromName(o.Metadata.Labels[OwnerLabel])
		switch {
		case !ours || !only(owner):
		case o.Metadata.DeletionTimestamp != "":
			state = fmt.Sprintf("%s is being deleted since %s: Chaos Mesh has not let go of it (finalizers %q)", o,
				o.Metadata.DeletionTimestamp, o.Metadata.Finalizers)
		default:
			changes = append(changes, o.deleted(strings.ToLower(o.Kind)+"."+MeshGroup, owner.Name()))
		}
	}
	err = carryOut(ctx, run, changes, report)
	return err == nil && state == "" && len(changes) == 0, state, err
}

// meshKinds returns those of MeshKinds that the API server serves, as kubectl names them; none without Chaos Mesh.
func meshKinds(ctx context.Context, run Runner) ([]string, error) {
	type group struct {
		Name string `json:"name"`
	}
	var apis struct {
		Groups []group `json:"groups"`
	}
	if err := raw(ctx, run, "/apis", &apis); err != nil {
		return nil, err
	}
	if !slices.Contains(apis.Groups, group{MeshGroup}) {
		return nil, nil
	}
	type resource struct {
		Name string `json:"name"`
	}
	var served struct {
		Resources []resource `json:"resources"`
	}
	if err := raw(ctx, run, "/apis/"+MeshGroup+"/"+MeshVersion, &served); err != nil {
		return nil, err
	}
	var kinds []string
	for _, name := range MeshKinds() {
		if slices.Contains(served.Resources, resource{name}) {
			kinds = append(kinds, name+"."+MeshGroup)
		}
	}
	return kinds, nil
}

// raw decodes what the API server answers at a path.
func raw(ctx context.Context, run Runner, path string, into any) error {
	out, err := run(ctx, kubectl("get", "--raw="+path), "")
	if err != nil {
		return fmt.Errorf("ask the API server for %s: %w", path, err)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("ask the API server for %s: decode answer %.80q: %w", path, out, err)
	}
	return nil
}
