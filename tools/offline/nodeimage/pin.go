package nodeimage

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/gobuild"
	"github.com/seatrial/seatrial/tools/offline/proc"
)

// Pin writes the pinned modules of a Kubernetes version below pinsDir, as gobuild.WritePins does. A version that is not
// in the list of releases is added to the file list.
func Pin(ctx context.Context, kubernetes, pinsDir, list string) error {
	data, err := os.ReadFile(list)
	if err != nil {
		return &offline.BadFileError{Text: "run it at the root of the source tree: " + err.Error()}
	}
	if r, err := releaseOf(kubernetes); err == nil {
		return gobuild.WritePins(ctx, pinsDir, ownFiles, components(r))
	}
	var all []offline.Release
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("decode %s: %w", list, err)
	}
	added, err := askedFor(ctx, kubernetes)
	if err != nil {
		return err
	}
	if err := gobuild.WritePins(ctx, pinsDir, ownFiles, components(releaseFrom(added))); err != nil {
		return err
	}
	all = append(slices.DeleteFunc(all, func(r offline.Release) bool { return r.Kubernetes == kubernetes }), added)
	slices.SortFunc(all, func(a, b offline.Release) int {
		newer, _ := version.MustParseSemantic(b.Kubernetes).Compare(a.Kubernetes)
		return newer
	})
	if data, err = json.MarshalIndent(all, "", "  "); err != nil {
		return fmt.Errorf("encode %s: %w", list, err)
	}
	return os.WriteFile(list, append(data, '\n'), 0o644)
}

// askedFor reads from the source of kubeadm which images a version asks for.
func askedFor(ctx context.Context, kubernetes string) (offline.Release, error) {
	r := offline.Release{Kubernetes: kubernetes}
	module, err := gobuild.Download(ctx, proc.Exec{}, os.TempDir(), kubernetesModule+"@"+kubernetes)
	if err != nil {
		for _, missing := range []string{"unknown revision", "invalid version", "version is not available"} {
			if strings.Contains(module.Error, missing) {
				return r, &offline.BadFileError{Text: fmt.Sprintf("there is no Kubernetes %s: %s", kubernetes,
					module.Error)}
			}
		}
		return r, err
	}
	name := filepath.Join(module.Dir, "cmd/kubeadm/app/constants/constants.go")
	source, err := os.ReadFile(name)
	if err != nil {
		return r, err
	}
	for constant, tag := range map[string]*string{
		"DefaultEtcdVersion": &r.Etcd, "CoreDNSVersion": &r.CoreDNS, "PauseVersion": &r.Pause,
	} {
		found := regexp.MustCompile(`(?m)^\s+` + constant + ` = "([^"]+)"$`).FindSubmatch(source)
		if found == nil {
			return r, fmt.Errorf("read what kubeadm %s asks for: %s has no %s", kubernetes, name, constant)
		}
		*tag = string(found[1])
	}
	return r, nil
}
