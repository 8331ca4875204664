package existing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/existing/link"
	"github.com/seatrial/seatrial/clusters/podexec"
)

const (
	// sessionLabel is on everything that is made in the API; its value is the session.
	sessionLabel = "seatrial.dev/link"
	// hostMount is where the pod sees the node's directory of sessions, below its path there. It sees no more: a mount
	// of the node's root would keep every volume in use that is mounted when the pod starts.
	hostMount = "/host"
	container = "agent"
	askEvery  = 250 * time.Millisecond
)

func (c *Cluster) labels() map[string]string {
	return map[string]string{sessionLabel: string(c.session), clusters.ManagedByLabel: clusters.ManagedBy}
}

// namespace is where the agents' pods are.
func (c *Cluster) namespace() string {
	if c.opts.Namespace != "" {
		return c.opts.Namespace
	}
	return "seatrial-link-" + string(c.session)
}

// makeNamespace makes the session's namespace, which allows privileged pods. One named by the user is not changed.
func (c *Cluster) makeNamespace(ctx context.Context) error {
	if c.opts.Namespace != "" {
		return nil
	}
	labels := c.labels()
	for _, mode := range []string{"enforce", "audit", "warn"} {
		labels["pod-security.kubernetes.io/"+mode] = "privileged"
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace(), Labels: labels}}
	_, err := c.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the agents' namespace: %w", err)
	}
	return nil
}

// removePods deletes the namespaces and pods that match a selector of sessionLabel and waits until they are gone.
func (c *Cluster) removePods(ctx context.Context, selector string) error {
	// A selector "label != value" also selects what has no such label.
	list := metav1.ListOptions{LabelSelector: sessionLabel + "," + selector}
	return await.Until(ctx, "the agents' pods to be gone", askEvery, joinBound,
		func(ctx context.Context) (bool, string, error) {
			pods, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, list)
			if err != nil {
				return false, "", err
			}
			spaces, err := c.kube.CoreV1().Namespaces().List(ctx, list)
			if err != nil {
				return false, "", err
			}
			var errs []error
			for _, p := range pods.Items {
				if p.DeletionTimestamp == nil {
					errs = append(errs, c.kube.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}))
				}
			}
			for _, n := range spaces.Items {
				if n.DeletionTimestamp == nil {
					errs = append(errs, c.kube.CoreV1().Namespaces().Delete(ctx, n.Name, metav1.DeleteOptions{}))
				}
			}
			errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil || apierrors.IsNotFound(err) })
			left := len(pods.Items) + len(spaces.Items)
			return left == 0, fmt.Sprintf("%d objects are left", left), errors.Join(errs...)
		})
}

// publicPause is for nodes that list no pause image: they list their 50 largest images only (nodeStatusMaxImages).
const publicPause = "registry.k8s.io/pause:3.10"

// imageOf returns the image for the pod on a node: the user's, else the pause image that the node lists.
func imageOf(n corev1.Node, users string) string {
	if users != "" {
		return users
	}
	for _, image := range n.Status.Images {
		for _, name := range image.Names {
			last, _, _ := strings.Cut(path.Base(name), "@")
			last, _, _ = strings.Cut(last, ":")
			if last == "pause" || strings.HasSuffix(last, "-pause") {
				return name
			}
		}
	}
	return publicPause
}

// loaders are the directories beside /usr that may hold a node's dynamic loader.
func loaders(architecture string) []string {
	if architecture == "amd64" {
		return []string{"/lib", "/lib64"}
	}
	return []string{"/lib"}
}

// agentPod is the pod on a node. It mounts the node's programs, since its image has none: the node's own install writes
// the agent's binary.
func (c *Cluster) agentPod(n corev1.Node, name, image string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace(), Labels: c.labels()},
		Spec: corev1.PodSpec{
			NodeName: n.Name, HostPID: true, HostNetwork: true, PriorityClassName: "system-node-critical",
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			TerminationGracePeriodSeconds: new(int64),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: container, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
				SecurityContext: &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64)},
			}},
		},
	}
	mount := func(name, from, to string, readOnly bool) {
		kind := corev1.HostPathDirectory
		if !readOnly {
			kind = corev1.HostPathDirectoryOrCreate
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: from, Type: &kind},
		}})
		main := &pod.Spec.Containers[0]
		main.VolumeMounts = append(main.VolumeMounts,
			corev1.VolumeMount{Name: name, MountPath: to, ReadOnly: readOnly})
	}
	mount("sessions", link.Sessions, hostMount+link.Sessions, false)
	mount("usr", "/usr", "/usr", true)
	for _, dir := range loaders(n.Status.NodeInfo.Architecture) {
		mount(path.Base(dir), dir, dir, true)
	}
	return pod
}

// makePod makes the pod on a node unless it exists, and waits until it runs.
func (c *Cluster) makePod(ctx context.Context, node, name string) (image string, err error) {
	pods := c.kube.CoreV1().Pods(c.namespace())
	return image, await.Until(ctx, fmt.Sprintf("pod %q on node %q to run", name, node), askEvery, joinBound,
		func(ctx context.Context) (bool, string, error) {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				object, err := c.kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
				if err != nil {
					return false, "", err
				}
				from := imageOf(*object, c.opts.AgentImage)
				_, err = pods.Create(ctx, c.agentPod(*object, name, from), metav1.CreateOptions{})
				// A new namespace is without its service account for a moment, which is forbidden as well.
				if apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "service account") ||
					apierrors.IsInvalid(err) {
					err = await.Stop(err)
				}
				return false, "made", err
			case err != nil:
				return false, "", err
			case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
				return false, "it has ended", pods.Delete(ctx, name, metav1.DeleteOptions{})
			}
			image = pod.Spec.Containers[0].Image
			state := string(pod.Status.Phase)
			for _, s := range pod.Status.ContainerStatuses {
				if s.State.Running != nil {
					return true, "", nil
				}
				if s.State.Waiting != nil {
					state += ", " + s.State.Waiting.Reason + " of " + image +
						" (--agent-image names another image that runs until it is stopped)"
				}
			}
			return false, state, nil
		})
}

// podExec runs a program in a pod to its end. Tests have one of their own.
type podExec func(ctx context.Context, pod string, argv []string, in io.Reader, out, errs io.Writer) error

func (c *Cluster) execInto(ctx context.Context, pod string, argv []string, in io.Reader, out, errs io.Writer) error {
	into := podexec.Target{Namespace: c.namespace(), Pod: pod, Container: container}
	return podexec.Run(ctx, c.config, into, argv, in, out, errs)
}

// runIn runs a program in a pod to its end and returns what it wrote.
func (c *Cluster) runIn(ctx context.Context, pod string, argv []string, in io.Reader) (string, error) {
	var out, said bytes.Buffer
	if err := c.exec(ctx, pod, argv, in, &out, &said); err != nil {
		return "", fmt.Errorf("run %q in pod %q: %w: %s", strings.Join(argv, " "), pod, err,
			strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// podConn is the standard input and output of a program in a pod.
type podConn struct {
	net.Conn
	cancel context.CancelFunc
	ended  chan struct{} // Closed when the program has ended; why is set then.
	why    error
}

// endBound is how long a program may take to end by itself after its connection was closed.
const endBound = 2 * time.Second

// connectIn returns the standard input and output of a program in a pod as a connection. A program that does not start
// fails the first read.
func (c *Cluster) connectIn(pod string, argv []string) net.Conn {
	ctx, cancel := context.WithCancel(context.Background()) // It outlives its maker's context, and ends by Close.
	near, far := net.Pipe()
	conn := &podConn{Conn: near, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer cancel()
		var said bytes.Buffer
		if err := c.exec(ctx, pod, argv, far, far, &said); err != nil {
			conn.why = fmt.Errorf("exec into pod %q: %w: %s", pod, err, strings.TrimSpace(said.String()))
		}
		close(conn.ended)
		_ = far.Close() // Ends what waits at the other end.
	}()
	return conn
}

func (p *podConn) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	return n, p.explain(err)
}

func (p *podConn) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	return n, p.explain(err)
}

// explain replaces the pipe's error by the reason why the program failed, if it did.
func (p *podConn) explain(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-p.ended:
		if p.why != nil {
			return p.why
		}
	default:
	}
	return err
}

// Close ends the program's standard input, and some time later the program.
func (p *podConn) Close() error {
	time.AfterFunc(endBound, p.cancel)
	return p.Conn.Close()
}
