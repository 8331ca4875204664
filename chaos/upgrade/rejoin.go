package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// flagsFile has the flags of the kubelet that kubeadm gave it when the node joined.
const flagsFile = "/var/lib/kubelet/kubeadm-flags.env"

// rejoin makes the node a new one of the new version: its Node is deleted, kubeadm reset takes everything of Kubernetes
// off it, and it joins with a token that is deleted afterwards.
func (c Config) rejoin(ctx context.Context, dir string, nodes []clusters.Node) error {
	flags, err := c.said(ctx, clusters.Command{Argv: []string{"cat", flagsFile}})
	if err != nil {
		return err
	}
	control := nodes[slices.IndexFunc(nodes, func(n clusters.Node) bool {
		return n.Role() == clusters.RoleControlPlane
	})]
	said, err := clusters.Run(ctx, control, "kubeadm", "token", "create", "--ttl=15m", "--print-join-command")
	if err != nil {
		return err
	}
	config, token, err := joinConfig(c.Node.Name(), said, flags)
	if err != nil {
		return err
	}
	old, err := c.ReadNode(ctx)
	if err == nil && old == nil {
		err = fmt.Errorf("find Node %q: there is none", c.Node.Name())
	}
	if err != nil {
		return err
	}
	if err := c.Kube.CoreV1().Nodes().Delete(ctx, c.Node.Name(), metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete Node: %w", err)
	}
	if err := c.run(ctx, "kubeadm", "reset", "--force"); err != nil {
		return err
	}
	if err := c.replace(ctx, dir, "kubelet", "kubectl"); err != nil {
		return err
	}
	if err := c.run(ctx, "systemctl", "daemon-reload"); err != nil {
		return err
	}
	_, err = c.said(ctx, clusters.Command{
		Argv:  []string{"kubeadm", "join", "--config=/dev/stdin", "--ignore-preflight-errors=" + ignored},
		Stdin: bytes.NewReader(config),
	})
	if err == nil {
		err = c.cordonAs(ctx, old)
	}
	_, forget := clusters.Run(ctx, control, "kubeadm", "token", "delete", token)
	return errors.Join(err, forget)
}

// cordonAs makes the new Node as schedulable as the old one was, with the mark of who undoes that.
func (c Config) cordonAs(ctx context.Context, old *corev1.Node) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{undo.Cordon: old.Annotations[undo.Cordon]}},
		"spec":     map[string]any{"unschedulable": old.Spec.Unschedulable},
	})
	if err != nil {
		return fmt.Errorf("encode the change of Node: %w", err)
	}
	what := fmt.Sprintf("new Node %q to be cordoned", c.Node.Name()) // kubeadm join ends before there is one.
	return await.Until(ctx, what, lookEvery, readyBound, func(ctx context.Context) (bool, string, error) {
		_, err := c.Kube.CoreV1().Nodes().Patch(ctx, c.Node.Name(), types.MergePatchType, patch, metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return false, "there is none", nil
		}
		return err == nil, "", err
	})
}

// joinConfig returns kubeadm's configuration of a node that joins as another did, and its token. Join is what kubeadm
// token create --print-join-command printed, flags what is in flagsFile.
func joinConfig(node, join, flags string) (config []byte, token string, err error) {
	words := strings.Fields(join)
	after := func(word string) string {
		if i := slices.Index(words, word); i >= 0 && i+1 < len(words) {
			return words[i+1]
		}
		return ""
	}
	token = after("--token")
	endpoint, hash := after("join"), after("--discovery-token-ca-cert-hash")
	if token == "" || endpoint == "" || hash == "" {
		return nil, "", fmt.Errorf("read how to join from what kubeadm printed: %q", join)
	}
	_, line, _ := strings.Cut(strings.TrimSpace(flags), "=")
	// These kubeadm sets by itself, as the version needs them.
	own := []string{"container-runtime-endpoint", "hostname-override", "pod-infra-container-image"}
	var args []map[string]string
	for _, flag := range strings.Fields(strings.Trim(line, `"`)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if ok && !slices.Contains(own, name) {
			args = append(args, map[string]string{"name": name, "value": value})
		}
	}
	config, err = yaml.Marshal(map[string]any{
		"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration",
		"discovery": map[string]any{"bootstrapToken": map[string]any{
			"apiServerEndpoint": endpoint, "token": token, "caCertHashes": []string{hash},
		}},
		"nodeRegistration": map[string]any{"name": node, "kubeletExtraArgs": args},
	})
	return config, token, err
}
