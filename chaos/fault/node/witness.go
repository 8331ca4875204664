package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/clusters"
)

// proxyPort is where kube-proxy serves its health on every cluster that kubeadm made, kind's included.
const proxyPort = 10256

// silentBound is how long a victim may take to fall silent: two rounds of requests.
const silentBound = 15 * time.Second

// witness is another node that sends HTTP requests to each of the victim's addresses. Connecting proves nothing, since
// the kernel also accepts connections for a stopped process. A witness without URLs returns no facts.
type witness struct {
	fault.Env
	node clusters.Node
	urls []string
}

// kubeletWitness returns a witness of the victim's kubelet that every address answers.
func kubeletWitness(ctx context.Context, env fault.Env) (witness, error) {
	port, err := env.KubeletPort(ctx, env.Node.Name())
	if err != nil {
		return witness{}, err
	}
	return newWitness(ctx, env, "https", port, true)
}

// newWitness returns the first other node that gets an answer. With all, every address must answer; otherwise silent
// ones are left out, and the witness may have no URL.
func newWitness(ctx context.Context, env fault.Env, scheme string, port uint16, all bool) (witness, error) {
	addresses, err := env.Node.Addresses(ctx)
	if err != nil {
		return witness{}, err
	}
	nodes, err := env.Others(ctx)
	if err != nil {
		return witness{}, err
	}
	var missed []string
	for _, n := range nodes {
		w := witness{Env: env, node: n}
		for _, a := range addresses {
			url := fmt.Sprintf("%s://%s/healthz", scheme, netip.AddrPortFrom(a, port))
			r, err := w.ask(ctx, url)
			switch {
			case err != nil:
				missed = append(missed, err.Error())
			case r.code == "":
				missed = append(missed, r.Sentence)
			default:
				w.urls = append(w.urls, url)
			}
		}
		if len(w.urls) == len(addresses) || !all && len(w.urls) > 0 {
			return w, nil
		}
	}
	if !all {
		return witness{}, nil
	}
	return witness{}, fmt.Errorf("no other node is answered by all of %v, and so no silence could be shown: %s",
		addresses, strings.Join(missed, "; "))
}

// reply is the outcome of one request.
type reply struct {
	fault.Fact
	code string // The HTTP status; empty without an answer.
}

// ask sends one request. Any status is an answer: a kubelet refuses anonymous requests.
func (w witness) ask(ctx context.Context, url string) (reply, error) {
	begin := w.Clock()
	argv := []string{"curl", "-sk", "-o", "/dev/null", "--max-time", "2", "-w", "%{http_code}", url}
	out, err := clusters.Run(ctx, w.node, argv...)
	code := strings.TrimSpace(out)
	sentence := fmt.Sprintf("%s answers node %s with status %s", url, w.node.Name(), code)
	// No connection, a timeout, an end within TLS, an empty answer, a reset (curl(1), exit codes).
	unanswered := []int{7, curlTimeout, 35, 52, 56}
	var exit *clusters.ExitError
	switch {
	case errors.As(err, &exit) && slices.Contains(unanswered, exit.ExitCode):
		code = ""
		sentence = fmt.Sprintf("%s does not answer node %s (curl exits with %d)", url, w.node.Name(), exit.ExitCode)
	case err != nil:
		return reply{}, fmt.Errorf("ask %s: %w", url, err)
	}
	return reply{w.Saw(begin, "%s", sentence)[0], code}, nil
}

// silence waits until no URL answers.
func (w *witness) silence(ctx context.Context) ([]fault.Fact, error) {
	return w.until(ctx, silentBound, "not to answer", func(r reply) bool { return r.code == "" })
}

// health waits until every URL answers with status 200.
func (w *witness) health(ctx context.Context) ([]fault.Fact, error) {
	return w.until(ctx, restartBound, "to answer with status 200", func(r reply) bool { return r.code == "200" })
}

// answers waits until every URL answers with any status.
func (w *witness) answers(ctx context.Context) ([]fault.Fact, error) {
	return w.until(ctx, restartBound, "to answer", func(r reply) bool { return r.code != "" })
}

func (w *witness) until(ctx context.Context, bound time.Duration, what string, good func(reply) bool) (
	[]fault.Fact, error,
) {
	if len(w.urls) == 0 {
		return nil, nil
	}
	return fault.Until(ctx, strings.Join(w.urls, ", ")+" "+what, 500*time.Millisecond, bound,
		func(ctx context.Context) ([]fault.Fact, error) {
			var facts []fault.Fact
			for _, url := range w.urls {
				r, err := w.ask(ctx, url)
				if err != nil {
					return nil, err
				}
				if !good(r) {
					return nil, fault.NotYet("%s", r.Sentence)
				}
				facts = append(facts, r.Fact)
			}
			return facts, nil
		})
}
