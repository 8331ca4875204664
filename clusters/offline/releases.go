package offline

import (
	_ "embed" // For releases.json.
	"encoding/json"
	"fmt"
)

// ReleasesFile is where the source tree has the pinned versions of Kubernetes, below its root.
const ReleasesFile = "clusters/offline/releases.json"

//go:embed releases.json
var releasesJSON []byte

// Release is a pinned version of Kubernetes, and the tags of the images that its kubeadm asks for.
type Release struct {
	Kubernetes string `json:"kubernetes"` // "v1.37.0".
	Etcd       string `json:"etcd"`       // "3.7.0-0".
	CoreDNS    string `json:"coredns"`    // "v1.14.6".
	Pause      string `json:"pause"`      // "3.10.2".
}

// Releases returns the pinned versions, the newest first.
func Releases() []Release {
	var all []Release
	if err := json.Unmarshal(releasesJSON, &all); err != nil {
		panic(fmt.Sprintf("decode %s: %v", ReleasesFile, err)) //nolint:forbidigo // A part of the program.
	}
	return all
}

// KubernetesVersions are the versions of which a node image can be made.
func KubernetesVersions() []string {
	var all []string
	for _, r := range Releases() {
		all = append(all, r.Kubernetes)
	}
	return all
}
