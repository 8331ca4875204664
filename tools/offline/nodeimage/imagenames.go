package nodeimage

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/seatrial/seatrial/tools/offline/proc"
)

// imageNames are the full names of the images in a node, by the last element of their repositories.
type imageNames map[string]string

// kubeadmImages returns the list of images that a kubeadm wants.
func (b *builder) kubeadmImages(ctx context.Context, binDir, version string) (string, error) {
	out, err := proc.Output(ctx, b.run, proc.Command{
		Args: []string{filepath.Join(binDir, "kubeadm"), "config", "images", "list", "--kubernetes-version", version},
		// Without a configuration of this host's.
		Env: []string{"KUBECONFIG=/nonexistent"},
	})
	if err != nil {
		return "", fmt.Errorf("ask kubeadm for its images: %w", err)
	}
	return out, nil
}

// parseImages reads kubeadm's list and compares it with the versions that were built.
func parseImages(list string, v release, podnet string) (imageNames, error) {
	tags := map[string]string{
		"kube-apiserver": v.Kubernetes, "kube-controller-manager": v.Kubernetes, "kube-scheduler": v.Kubernetes,
		"kube-proxy": v.Kubernetes, "etcd": v.EtcdTag, "coredns": v.CoreDNSTag, "pause": v.PauseTag,
	}
	names := imageNames{"podnet": podnet}
	for _, full := range strings.Fields(list) {
		repository, tag, _ := strings.Cut(full[strings.LastIndex(full, "/")+1:], ":")
		switch want, ok := tags[repository]; {
		case !ok:
			return nil, fmt.Errorf("read kubeadm's images: %q is not one that is built", full)
		case tag != want:
			return nil, fmt.Errorf("read kubeadm's images: kubeadm of %s wants %s %s, the list of releases says %s",
				v.Kubernetes, repository, tag, want)
		}
		names[repository] = full
	}
	for repository := range tags {
		if names[repository] == "" {
			return nil, fmt.Errorf("read kubeadm's images: no %s among them", repository)
		}
	}
	return names, nil
}
