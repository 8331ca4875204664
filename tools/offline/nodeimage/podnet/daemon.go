package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	// resyncEvery is how often the node is looked at when nothing is heard.
	resyncEvery = 30 * time.Second
	// settle is how long changes are collected before the node is looked at: links come and go in bursts.
	settle = 100 * time.Millisecond
	// retryAfter is how soon a look that failed is repeated.
	retryAfter = time.Second
)

// host is what the daemon needs of the node's kernel.
type host interface {
	routes() ([]route, error)
	addRoute(route) error
	removeRoute(route) error
	mtu(addresses []netip.Addr) (int, error)
	applyRules(ctx context.Context, rules string) error
	forward(is6 bool) error
	changes(ctx context.Context) (<-chan struct{}, error)
}

// daemon keeps one node's network as it should be.
type daemon struct {
	node     string
	log      *slog.Logger
	kernel   host
	conflist string
	alive    string

	rules    string    // The rules applied last.
	rulesAge time.Time // When they were.
}

// newClient returns a client of the API server. With an endpoint, the server is reached there rather than by the
// service address, which does not work before kube-proxy does.
func newClient(endpoint string) (kubernetes.Interface, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("read cluster configuration: %w", err)
	}
	if endpoint != "" {
		config.Host = "https://" + endpoint
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// run repairs the node's network until ctx ends.
func (d *daemon) run(ctx context.Context, client kubernetes.Interface) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes()
	cluster := make(chan struct{}, 1)
	if _, err := nodes.Informer().AddEventHandler(onAnything(cluster)); err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	changes, err := d.kernel.changes(ctx)
	if err != nil {
		return err
	}
	if !cache.WaitForCacheSync(ctx.Done(), nodes.Informer().HasSynced) {
		return fmt.Errorf("wait for the list of nodes: %w", ctx.Err())
	}
	return d.loop(ctx, nodes.Lister(), cluster, changes)
}

func (d *daemon) loop(
	ctx context.Context, nodes corelisters.NodeLister, cluster, changes <-chan struct{},
) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-cluster:
			next.Reset(settle)
			continue
		case _, ok := <-changes:
			if !ok {
				changes = nil
			}
			next.Reset(settle)
			continue
		case <-next.C:
		}
		all, err := nodes.List(labels.Everything())
		if err == nil {
			err = d.repair(ctx, all)
		}
		if err != nil {
			d.log.Warn("repair network", "error", err)
			next.Reset(retryAfter)
			continue
		}
		next.Reset(resyncEvery)
	}
}

// repair makes the node's network what the nodes' objects say. The network configuration comes last: with it the
// node becomes ready for pods.
func (d *daemon) repair(ctx context.Context, nodes []*corev1.Node) error {
	want, err := plan(d.node, nodes)
	if err != nil {
		return err
	}
	for _, cidr := range want.Own {
		if err := d.kernel.forward(cidr.Addr().Is6()); err != nil {
			return err
		}
	}
	if err := d.repairRoutes(want.Routes); err != nil {
		return err
	}
	rules := renderMasquerade(want)
	if rules != d.rules || time.Since(d.rulesAge) > resyncEvery/2 {
		if err := d.kernel.applyRules(ctx, rules); err != nil {
			return err
		}
		d.rules, d.rulesAge = rules, time.Now()
	}
	mtu, err := d.kernel.mtu(want.Addresses)
	if err != nil {
		return err
	}
	config, err := renderConflist(want.Own, mtu)
	if err != nil {
		return err
	}
	if err := writeChanged(d.conflist, config); err != nil {
		return err
	}
	return touch(d.alive)
}

// repairRoutes changes only what is wrong: a route that is replaced by the same one would be a change to hear of.
func (d *daemon) repairRoutes(want []route) error {
	have, err := d.kernel.routes()
	if err != nil {
		return err
	}
	var errs []error
	add, remove := difference(have, want)
	for _, r := range remove {
		d.log.Info("remove route", "to", r.Dst, "via", r.Via)
		errs = append(errs, d.kernel.removeRoute(r))
	}
	for _, r := range add {
		d.log.Info("add route", "to", r.Dst, "via", r.Via)
		errs = append(errs, d.kernel.addRoute(r))
	}
	return errors.Join(errs...)
}

// onAnything kicks on every change of an object.
func onAnything(kicks chan struct{}) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { kick(kicks) },
		UpdateFunc: func(any, any) { kick(kicks) },
		DeleteFunc: func(any) { kick(kicks) },
	}
}

// kick leaves a note that something changed, once.
func kick(kicks chan<- struct{}) {
	select {
	case kicks <- struct{}{}:
	default:
	}
}

// writeChanged writes a file in one step, when it does not have that content yet.
func writeChanged(path string, content []byte) error {
	if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write network configuration: %w", err)
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, content, 0o644); err != nil {
		return fmt.Errorf("write network configuration: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("write network configuration: %w", err)
	}
	return nil
}

// touch leaves a sign of life.
func touch(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("leave a sign of life: %w", err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return fmt.Errorf("leave a sign of life: %w", err)
	}
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return fmt.Errorf("leave a sign of life: %w", err)
	}
	return nil
}
