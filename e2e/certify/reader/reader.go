// Package reader reads what package audit judges. It sends GET requests only, to the resources in the role of
// WriteRole, never for a Secret, and at most QPS of them in a second.
package reader

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/seatrial/seatrial/e2e/certify/audit"
)

const (
	// QPS is how many requests are sent in a second.
	QPS = 20
	// burst is how many requests may be sent at once.
	burst = 40
	// pageSize is how many objects one answer holds.
	pageSize = 500
	// requestBound bounds one request.
	requestBound = 30 * time.Second
	// longestLine is more than a line of /metrics takes.
	longestLine = 1 << 20
)

// Reader reads one cluster.
type Reader struct {
	Version string // Of the API server: "v1.36.3".

	certificateEnds time.Time // Zero if the address speaks no TLS.
	kube            kubernetes.Interface
	requests        *atomic.Int64
}

// Open asks the API server for its version.
func Open(ctx context.Context, config *rest.Config) (*Reader, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.Timeout, config.WarningHandler = QPS, burst, requestBound, rest.NoWarnings{}
	r := &Reader{requests: &atomic.Int64{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &getOnly{next, r.requests} })
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the cluster: %w", err)
	}
	if r.kube, err = kubernetes.NewForConfigAndClient(config, client); err != nil {
		return nil, fmt.Errorf("make a client of the cluster: %w", err)
	}
	if err := r.greet(ctx, client); err != nil {
		return nil, fmt.Errorf("ask the API server for its version: %w", err)
	}
	return r, nil
}

// getOnly refuses every request that could write, and counts the others.
type getOnly struct {
	next     http.RoundTripper
	requests *atomic.Int64
}

func (g *getOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return nil, fmt.Errorf("%s %s: only GET is sent", req.Method, req.URL.Path)
	}
	g.requests.Add(1)
	return g.next.RoundTrip(req)
}

// greet reads the version, and the certificate of the connection that it comes by.
func (r *Reader) greet(ctx context.Context, client *http.Client) (err error) {
	url := r.kube.CoreV1().RESTClient().Get().AbsPath("/version").URL().String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, answer.Status)
	}
	var version apiversion.Info
	if err := json.NewDecoder(answer.Body).Decode(&version); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	r.Version = version.GitVersion
	if answer.TLS != nil && len(answer.TLS.PeerCertificates) > 0 {
		r.certificateEnds = answer.TLS.PeerCertificates[0].NotAfter
	}
	return nil
}

// Requests returns how many requests have been sent.
func (r *Reader) Requests() int64 { return r.requests.Load() }

// Read reads all parts. A part that cannot be read is missing, with the reason.
func (r *Reader) Read(ctx context.Context) (audit.Cluster, error) {
	c := audit.Cluster{
		Version: r.Version, At: time.Now(), CertificateEnds: r.certificateEnds, Missing: map[audit.Part]string{},
	}
	if r.certificateEnds.IsZero() {
		c.Missing[audit.Certificate] = "the address of the API server does not speak TLS"
	}
	for _, one := range sources() {
		if err := one.read(ctx, r.kube, &c); err != nil {
			c.Missing[one.part] = err.Error()
		}
	}
	if err := readMetrics(ctx, r.kube, &c); err != nil {
		c.Missing[audit.Metrics] = err.Error()
	}
	if ctx.Err() != nil {
		return c, fmt.Errorf("read the cluster: %w", context.Cause(ctx))
	}
	return c, nil
}

// source is one part, and where it is read.
type source struct {
	part audit.Part
	in   schema.GroupVersion // Of the objects; they are listed by the name of the part.
	why  string
	keep func(*audit.Cluster, runtime.Object) error
}

// into keeps objects in a list of a Cluster.
func into[T any](list func(*audit.Cluster) *[]T) func(*audit.Cluster, runtime.Object) error {
	return func(c *audit.Cluster, o runtime.Object) error {
		one, ok := any(o).(*T)
		if !ok {
			return fmt.Errorf("the API server sent a %T", o)
		}
		*list(c) = append(*list(c), *one)
		return nil
	}
}

func (s source) path() string {
	if s.in.Group == "" {
		return "/api/" + s.in.Version + "/" + string(s.part)
	}
	return "/apis/" + s.in.String() + "/" + string(s.part)
}

// read reads all objects page by page, without their managed fields: they are not judged.
func (s source) read(ctx context.Context, kube kubernetes.Interface, c *audit.Cluster) error {
	pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		page, err := kube.CoreV1().RESTClient().Get().AbsPath(s.path()).
			VersionedParams(&opts, scheme.ParameterCodec).Do(ctx).Get()
		if err != nil {
			return nil, err
		}
		return page, meta.EachListItem(page, func(o runtime.Object) error {
			if o, ok := o.(metav1.Object); ok {
				o.SetManagedFields(nil)
			}
			return nil
		})
	})
	pages.PageSize = pageSize
	all, _, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return meta.EachListItem(all, func(o runtime.Object) error { return s.keep(c, o) })
}

// readMetrics reads the metrics of the API server line by line: there can be many megabytes of them.
func readMetrics(ctx context.Context, kube kubernetes.Interface, c *audit.Cluster) (err error) {
	body, err := kube.CoreV1().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	c.Gates = map[string]bool{}
	err = eachMetric(body, func(name string, labels map[string]string, value string) {
		switch {
		case name == gatesMetric:
			c.Gates[labels["name"]] = value == "1"
		case name == "apiserver_requested_deprecated_apis" && value == "1":
			c.Deprecated = append(c.Deprecated, audit.DeprecatedAPI{Group: labels["group"], Version: labels["version"],
				Resource: labels["resource"], Subresource: labels["subresource"], Removed: labels["removed_release"]})
		}
	})
	if err != nil {
		return err
	}
	if len(c.Gates) == 0 {
		return errors.New("kubernetes_feature_enabled is not among them: they are not those of an API server")
	}
	return nil
}

// gatesMetric is 1 for each feature gate that is on (KEP-2305).
const gatesMetric = "kubernetes_feature_enabled"

// eachMetric calls for every line of the text format that is a metric.
func eachMetric(from io.Reader, call func(name string, labels map[string]string, value string)) error {
	pair := regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		name, rest, labelled := strings.Cut(line[:max(end, 0)], "{")
		if end < 0 || labelled && !strings.HasSuffix(rest, "}") {
			return fmt.Errorf("%q is no metric", line)
		}
		labels := map[string]string{}
		for _, m := range pair.FindAllStringSubmatch(rest, -1) {
			labels[m[1]] = m[2]
		}
		call(name, labels, line[end+1:])
	}
	return lines.Err()
}

// sources returns all objects in the order in which they are read: users before what they use, so that a volume that
// is being attached is rather seen attached than missed.
func sources() []source {
	core, storage := corev1.SchemeGroupVersion, storagev1.SchemeGroupVersion
	return []source{
		{audit.Pods, core, "who uses a volume, what a budget covers, the flags of the control plane",
			into(func(c *audit.Cluster) *[]corev1.Pod { return &c.Pods })},
		{audit.Nodes, core, "conditions, versions, volumesInUse and volumesAttached",
			into(func(c *audit.Cluster) *[]corev1.Node { return &c.Nodes })},
		{audit.Attachments, storage, "which volume is attached to which node",
			into(func(c *audit.Cluster) *[]storagev1.VolumeAttachment { return &c.Attachments })},
		{audit.Claims, core, "which volume a pod or a StatefulSet has",
			into(func(c *audit.Cluster) *[]corev1.PersistentVolumeClaim { return &c.Claims })},
		{audit.Volumes, core, "access modes, reclaim policies, volumes that are on one node only",
			into(func(c *audit.Cluster) *[]corev1.PersistentVolume { return &c.Volumes })},
		{audit.Drivers, storage, "whether a driver attaches, and how it mounts",
			into(func(c *audit.Cluster) *[]storagev1.CSIDriver { return &c.Drivers })},
		{audit.Classes, storage, "how volumes are made; part of the cluster's fingerprint",
			into(func(c *audit.Cluster) *[]storagev1.StorageClass { return &c.Classes })},
		{audit.StatefulSets, appsv1.SchemeGroupVersion, "replicas, rollouts, grace periods, retention of claims",
			into(func(c *audit.Cluster) *[]appsv1.StatefulSet { return &c.StatefulSets })},
		{audit.Budgets, policyv1.SchemeGroupVersion, "what a drain may evict",
			into(func(c *audit.Cluster) *[]policyv1.PodDisruptionBudget { return &c.Budgets })},
	}
}

// WriteRole writes the ClusterRole that allows all reads and nothing else.
func WriteRole(w io.Writer) error {
	var b strings.Builder
	fmt.Fprint(&b, `# The least that "seatrial certify audit" needs. It writes nothing and reads no Secret.
# A part that is not allowed is reported as not looked at.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: seatrial-audit
rules:
# the API server's version; every user may read it unless that was taken away
- nonResourceURLs: [/version]
  verbs: [get]
`)
	for _, s := range sources() {
		fmt.Fprintf(&b, "# %s\n- apiGroups: [%q]\n  resources: [%s]\n  verbs: [list]\n", s.why, s.in.Group, s.part)
	}
	fmt.Fprint(&b, `# deprecated APIs that are asked for, and feature gates as they are
- nonResourceURLs: [/metrics]
  verbs: [get]
`)
	_, err := io.WriteString(w, b.String())
	return err
}
