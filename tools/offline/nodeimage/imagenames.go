package nodeimage

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/seatrial/seatrial/tools/offline/proc"
)

// imageNames are the full names of the images in a node, by what they are.
type imageNames struct {
	apiserver, controllerManager, scheduler, proxy string
	etcd, coredns, pause                           string
	podnet                                         string
}

// kubeadmImages asks a kubeadm which images it wants; it knows the names, so that nobody has to write them down.
func (b *builder) kubeadmImages(ctx context.Context, binDir, version string) (string, error) {
	out, err := proc.Output(ctx, b.run, proc.Command{
		Args: []string{filepath.Join(binDir, "kubeadm"), "config", "images", "list", "--kubernetes-version", version},
		// Nothing on this host is to be asked or configured.
		Env: []string{"KUBECONFIG=/nonexistent"},
	})
	if err != nil {
		return "", fmt.Errorf("ask kubeadm for its images: %w", err)
	}
	return out, nil
}

// parseImages sorts kubeadm's list, and holds it against the versions that were built.
func parseImages(list string, v release, podnet string) (imageNames, error) {
	names := imageNames{podnet: podnet}
	want := map[string]struct {
		into *string
		tag  string
	}{
		"kube-apiserver":          {&names.apiserver, v.Kubernetes},
		"kube-controller-manager": {&names.controllerManager, v.Kubernetes},
		"kube-scheduler":          {&names.scheduler, v.Kubernetes},
		"kube-proxy":              {&names.proxy, v.Kubernetes},
		"etcd":                    {&names.etcd, v.EtcdTag},
		"coredns":                 {&names.coredns, v.CoreDNSTag},
		"pause":                   {&names.pause, v.PauseTag},
	}
	for line := range strings.Lines(list) {
		full := strings.TrimSpace(line)
		if full == "" {
			continue
		}
		repository, tag, _ := strings.Cut(full[strings.LastIndex(full, "/")+1:], ":")
		w, ok := want[repository]
		if !ok {
			return imageNames{}, fmt.Errorf("read kubeadm's images: %q is not one that is built", full)
		}
		if tag != w.tag {
			return imageNames{}, fmt.Errorf(
				"read kubeadm's images: kubeadm of %s wants %s %s, the list of releases says %s",
				v.Kubernetes, repository, tag, w.tag)
		}
		*w.into = full
	}
	for repository, w := range want {
		if *w.into == "" {
			return imageNames{}, fmt.Errorf("read kubeadm's images: no %s among them", repository)
		}
	}
	return names, nil
}
