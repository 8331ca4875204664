package existing

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/existing/link"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const twoContexts = `apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: a, cluster: {server: "https://192.0.2.1:6443", certificate-authority: ca.crt}}
- {name: b, cluster: {server: "https://192.0.2.2:8443"}}
users:
- {name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: get-token, interactiveMode: Never}}}
contexts:
- {name: one, context: {cluster: a, user: u}}
- {name: two, context: {cluster: b, user: u}}
`

func TestAccess(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config")
	must(t, os.WriteFile(file, []byte(twoContexts), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("certificate"), 0o600))
	for _, c := range []struct {
		name, file, env, context string
		want, server             string
		notFound                 bool
	}{
		{name: "current", file: file, want: "one", server: "https://192.0.2.1:6443"},
		{name: "named", file: file, context: "two", want: "two", server: "https://192.0.2.2:8443"},
		{name: "$KUBECONFIG", env: file, want: "one", server: "https://192.0.2.1:6443"},
		{name: "$KUBECONFIG of several", env: "/no/such:" + file, context: "two", want: "two",
			server: "https://192.0.2.2:8443"},
		{name: "no such context", file: file, context: "three", want: "three", notFound: true},
		{name: "none at all", env: "/no/such", notFound: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", c.env)
			name, text, err := access(c.file, c.context)
			if errors.Is(err, clusters.ErrNotFound) != c.notFound || (err != nil) != c.notFound || name != c.want {
				t.Fatalf("access = %q, %v", name, err)
			}
			if c.notFound {
				return
			}
			config, err := clientcmd.RESTConfigFromKubeConfig(text)
			must(t, err)
			if config.Host != c.server || config.ExecProvider == nil || config.ExecProvider.Command != "get-token" {
				t.Errorf("config: %s, %v", config.Host, config.ExecProvider)
			}
			if c.want == "one" && string(config.CAData) != "certificate" {
				t.Errorf("authority: %q", config.CAData)
			}
			if strings.Contains(string(text), "192.0.2.1") == strings.Contains(string(text), "192.0.2.2") {
				t.Errorf("want one context:\n%s", text)
			}
		})
	}
	if _, _, err := access(filepath.Join(dir, "none"), ""); err == nil {
		t.Error("a file that is not there is no error")
	}
}

func TestImageOf(t *testing.T) {
	node := func(names ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		for _, name := range names {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{name}})
		}
		return n
	}
	for _, c := range []struct {
		node        corev1.Node
		users, want string
	}{
		{node("example.com/app:1", "example.com/pause:3.10"), "", "example.com/pause:3.10"},
		{node("example.com/mirrored-pause:3.6"), "", "example.com/mirrored-pause:3.6"},
		{node("example.com/pause@sha256:00"), "", "example.com/pause@sha256:00"},
		{node("example.com:5000/pause"), "", "example.com:5000/pause"},
		{node("example.com/pause:3.10"), "mine:1", "mine:1"},
		{node("example.com/pauser:1", "pause.example.com/app:1", "example.com/app:pause"), "", publicPause},
		{node(), "", publicPause},
	} {
		if got := imageOf(c.node, c.users); got != c.want {
			t.Errorf("image of %v with %q = %q, want %q", c.node.Status.Images, c.users, got, c.want)
		}
	}
}

// Addresses of links count on which the API knows one; link-local ones and those of bridges of pods do not.
func TestSameLinks(t *testing.T) {
	out := `[{"ifname":"lo","addr_info":[{"local":"127.0.0.1","scope":"host"}]},
		{"ifname":"eth0","addr_info":[{"local":"172.18.0.4","scope":"global"},{"local":"fc00::4","scope":"global"},
			{"local":"fe80::42","scope":"link"}]},
		{"ifname":"cni0","addr_info":[{"local":"10.244.0.1","scope":"global"}]},{}]`
	known := []netip.Addr{netip.MustParseAddr("172.18.0.4"), netip.MustParseAddr("192.0.2.7")}
	got, err := sameLinks([]byte(out), known)
	if want := "[172.18.0.4 fc00::4]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v, want %s", got, err, want)
	}
	if _, err := sameLinks([]byte("Object"), known); err == nil {
		t.Error("no error for what is no JSON")
	}
}

// The first node, by name, that cannot do something is the reason.
func TestFirstOf(t *testing.T) {
	for _, c := range []struct {
		found map[string]error
		want  string
	}{
		{map[string]error{"a": nil, "b": nil}, ""},
		{map[string]error{"a": nil, "c": errors.New("no nft"), "b": errors.New("old nft")}, `node "b": old nft`},
	} {
		if got := firstOf(c.found); got != c.want {
			t.Errorf("firstOf(%v) = %q, want %q", c.found, got, c.want)
		}
	}
}

// What needs power or a shared directory is refused before anything is touched.
func TestCapabilitiesOnPaper(t *testing.T) {
	lacks := Capabilities(false).Lacks([]string{
		clusters.CanPower, clusters.CanSharedDir, clusters.CanAPI, clusters.CanNFTables,
	})
	if len(lacks) != 2 || lacks[clusters.CanPower] == "" || lacks[clusters.CanSharedDir] == "" {
		t.Errorf("lacks %v", lacks)
	}
	if lacks := Capabilities(true).Lacks([]string{clusters.CanPower}); len(lacks) > 0 {
		t.Errorf("with a hook it lacks %v", lacks)
	}
}

// A hook is called with its verb and the node. What it does not say, or fails to do, is an error, and it ends with its
// caller.
func TestHook(t *testing.T) {
	for name, c := range map[string]struct{ script, do, want, err string }{
		"running":          {"echo running", "", clusters.StateRunning, ""},
		"paused":           {"echo paused", "", clusters.StatePaused, ""},
		"stopped":          {`[ "$*" = "state n" ] && echo stopped`, "", clusters.StateExited, ""},
		"another word":     {"echo maybe", "", "", `it printed "maybe"; want running, stopped or paused`},
		"nothing":          {"", "", "", `it printed ""`},
		"it fails":         {"echo 'no such VM' >&2; exit 3", "", "", "exit status 3: no such VM"},
		"stop":             {`[ "$1" = stop ] || echo stopped`, "stop", "", ""},
		"kill, in vain":    {`[ "$1" = kill ] || echo running`, "kill", "", "it says running"},
		"it cannot pause":  {`[ "$1" = state ] && echo running`, "pause", "", "hook pause n: exit status 1"},
		"it does not end":  {"setsid -w true; sleep 4714", "", "", "deadline exceeded"},
		"its child stays":  {"sleep 4714 & sleep 4714", "", "", "deadline exceeded"},
		"start takes time": {`[ "$1" = start ] && touch "$0.up"; [ -e "$0.up" ] && echo running`, "start", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "hook")
			must(t, os.WriteFile(program, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
			n := HookedNode(program, "n")
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			var got string
			var err error
			switch c.do {
			case "stop":
				err = n.Stop(ctx, 0)
			case "kill":
				err = n.Kill(ctx)
			case "pause":
				err = n.Pause(ctx)
			case "start":
				err = n.Start(ctx)
			default:
				got, err = n.State(ctx)
			}
			if got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
	if out, _ := exec.Command("pgrep", "-f", "^sleep 4714$").Output(); len(out) > 0 {
		t.Errorf("left: process %s", out)
	}
}

// Pods see nothing of the node but what they need to write the agent, and hold no token.
func TestAgentPod(t *testing.T) {
	c := &Cluster{session: "abc"}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Status.NodeInfo.Architecture = "arm64"
	pod := c.agentPod(node, "p", "pause")
	if pod.Spec.NodeName != "n" || pod.Labels[sessionLabel] != "abc" || *pod.Spec.AutomountServiceAccountToken ||
		pod.Namespace != "seatrial-link-abc" {
		t.Errorf("pod: %+v", pod)
	}
	var mounts []string
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		mounts = append(mounts, m.MountPath)
		if m.MountPath != hostMount+link.Sessions && !m.ReadOnly {
			t.Errorf("%s is writable", m.MountPath)
		}
	}
	if got := strings.Join(mounts, " "); got != "/host/var/lib/seatrial/link /usr /lib" {
		t.Errorf("mounts %q", got)
	}
}
