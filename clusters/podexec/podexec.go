// Package podexec runs programs in containers of pods, through the API server.
package podexec

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/seatrial/seatrial/clusters"
)

// Target is a container; the pod's default one if Container is empty.
type Target struct{ Namespace, Pod, Container string }

// Run runs a program to its end, over WebSockets or, with an API server that knows none, SPDY. Streams may be nil. If
// the context ends first, the program may live on.
func Run(
	ctx context.Context, config *rest.Config, in Target, argv []string, stdin io.Reader, out, errs io.Writer,
) error {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	options := &corev1.PodExecOptions{
		Container: in.Container, Command: argv, Stdin: stdin != nil, Stdout: out != nil, Stderr: errs != nil,
	}
	url := kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(in.Namespace).Name(in.Pod).
		SubResource("exec").VersionedParams(options, scheme.ParameterCodec).URL()
	sockets, err := remotecommand.NewWebSocketExecutor(config, "GET", url.String())
	if err != nil {
		return err
	}
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", url)
	if err != nil {
		return err
	}
	either, err := remotecommand.NewFallbackExecutor(sockets, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return err
	}
	return either.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: out, Stderr: errs})
}

// maxOutput bounds what is kept of each stream, in bytes.
const maxOutput = 16 << 10

// Output runs a program to its end and returns the end of what it wrote to either stream. The error has the second one.
func Output(ctx context.Context, config *rest.Config, in Target, argv []string) (out, said string, err error) {
	kept, errs := &clusters.Tail{Max: maxOutput}, &clusters.Tail{Max: maxOutput}
	if err = Run(ctx, config, in, argv, nil, kept, errs); err != nil {
		err = fmt.Errorf("run %q in pod %q: %w: %s", strings.Join(argv, " "), in.Pod, err, bytes.TrimSpace(errs.Data))
	}
	return string(kept.Data), string(errs.Data), err
}
