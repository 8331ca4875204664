// Package reader reads of a cluster what package audit judges. Its promise: it sends GET requests only, to the
// resources that Role names, never for a Secret, and no more of them in a second than QPS.
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

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
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
	for _, one := range reads() {
		err := one.read(ctx, r.kube, &c)
		if ctx.Err() != nil {
			return c, fmt.Errorf("read the cluster: %w", context.Cause(ctx))
		}
		if err != nil {
			c.Missing[one.part] = err.Error()
		}
	}
	return c, nil
}

// read is one part, and what it takes to read it.
type read struct {
	part  audit.Part
	group string // Of the resource, which has the name of the part.
	url   string // Instead of a resource.
	why   string
	read  func(context.Context, kubernetes.Interface, *audit.Cluster) error
}

// object is a pointer to a T that is an API object.
type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// lister is how client-go lists.
type lister[L runtime.Object] func(context.Context, metav1.ListOptions) (L, error)

// list reads all objects of a resource, page by page. What is kept is only what is judged: no managed fields.
func list[T any, P object[T], L runtime.Object](
	call func(kubernetes.Interface) lister[L],
	into func(*audit.Cluster) *[]T,
) func(context.Context, kubernetes.Interface, *audit.Cluster) error {
	return func(ctx context.Context, kube kubernetes.Interface, c *audit.Cluster) error {
		pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			page, err := call(kube)(ctx, opts)
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
		return meta.EachListItem(all, func(o runtime.Object) error {
			one, ok := o.(P)
			if !ok {
				return fmt.Errorf("the API server sent a %T", o)
			}
			*into(c) = append(*into(c), *one)
			return nil
		})
	}
}

// readMetrics reads the metrics of the API server line by line: there can be many megabytes of them.
func readMetrics(ctx context.Context, kube kubernetes.Interface, c *audit.Cluster) (err error) {
	body, err := kube.CoreV1().RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	c.Gates = map[string]bool{}
	if err := parseMetrics(body, c); err != nil {
		return err
	}
	if len(c.Gates) == 0 {
		return errors.New("kubernetes_feature_enabled is not among them: they are not those of an API server")
	}
	return nil
}

// parseMetrics takes two metrics of the text format and leaves the others out.
func parseMetrics(from io.Reader, c *audit.Cluster) error {
	return eachMetric(from, func(name string, labels map[string]string, value string) {
		switch {
		case name == gatesMetric:
			c.Gates[labels["name"]] = value == "1"
		case name == "apiserver_requested_deprecated_apis" && value == "1":
			c.Deprecated = append(c.Deprecated, audit.DeprecatedAPI{Group: labels["group"], Version: labels["version"],
				Resource: labels["resource"], Subresource: labels["subresource"], Removed: labels["removed_release"]})
		}
	})
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
