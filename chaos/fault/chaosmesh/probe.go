package chaosmesh

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	nodeprobe "github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// probe sees the effect of an experiment without asking Chaos Mesh.
type probe interface {
	// before checks that the effect is not there yet.
	before(ctx context.Context) error
	// seen waits until the effect is seen.
	seen(ctx context.Context) ([]fault.Fact, error)
	// gone waits until the effect is not seen.
	gone(ctx context.Context) ([]fault.Fact, error)
}

func newProbe(obj client.Object, env fault.Env) (probe, error) {
	switch o := obj.(type) {
	case *v1alpha1.IOChaos:
		return newFiles(o, env), nil
	case *v1alpha1.StressChaos:
		return &processes{env: env, judge: stressed}, nil
	case *v1alpha1.PodChaos:
		return &processes{env: env, judge: failed}, nil
	}
	return nil, fmt.Errorf("read the manifest: there is no probe for %T", obj)
}

// stressors are the kernel's names of Chaos Mesh's stress programs.
func stressors() []string { return []string{"stress-ng", "memStress"} }

// stressed looks for a stress program among the pod's processes.
func stressed(_, now []nodeprobe.Process) (string, error) {
	for _, p := range now {
		if slices.ContainsFunc(stressors(), func(name string) bool { return strings.HasPrefix(p.Name, name) }) {
			return fmt.Sprintf("%s, pid %d, runs in the pod since %s", p.Name, p.PID, p.Start), nil
		}
	}
	return "", fault.NotYet("none of %d processes in the pod is one of %q", len(now), stressors())
}

// failed checks that none of the pod's former processes is left.
func failed(before, now []nodeprobe.Process) (string, error) {
	if len(before) == 0 {
		return "", fault.NotYet("there was no process in the pod")
	}
	for _, p := range now {
		if slices.ContainsFunc(before, func(q nodeprobe.Process) bool { return q.PID == p.PID && q.Start == p.Start }) {
			return "", fault.NotYet("%s, pid %d, runs in the pod as before", p.Name, p.PID)
		}
	}
	return fmt.Sprintf("none of the %d processes that ran in the pod is left", len(before)), nil
}

// processes is a probe of the processes of the victim's pod on its node.
type processes struct {
	env   fault.Env
	judge func(before, now []nodeprobe.Process) (string, error)
	old   []nodeprobe.Process // As of before the experiment.
}

// look returns the pod and its processes, with the time of the reading.
func (p *processes) look(ctx context.Context) (nodeprobe.Processes, corev1.Pod, error) {
	pods, err := p.env.PodsOn(ctx)
	if err != nil {
		return nodeprobe.Processes{}, corev1.Pod{}, err
	}
	i := slices.IndexFunc(pods, func(q corev1.Pod) bool {
		return q.Namespace == p.env.Namespace && q.Name == p.env.Pod
	})
	if i < 0 {
		return nodeprobe.Processes{}, corev1.Pod{}, fmt.Errorf("pod %q is not on node %q", p.env.Pod, p.env.Node.Name())
	}
	found, err := nodeagent.On(p.env.Node).Processes(ctx, nodeprobe.Query{PodUIDs: []string{string(pods[i].UID)}})
	return found, pods[i], err
}

func (p *processes) before(ctx context.Context) error {
	found, pod, err := p.look(ctx)
	if err != nil {
		return err
	}
	if sentence, err := p.judge(nil, found.Processes); err == nil {
		return fmt.Errorf("the effect is there already: %s", sentence)
	}
	p.old = slices.DeleteFunc(found.Processes, func(q nodeprobe.Process) bool { return !ofContainer(pod, q) })
	if !fault.Ready(&pod) || len(p.old) == 0 {
		return fmt.Errorf("pod %q has %d processes in containers and is Ready %t: its processes cannot be compared",
			pod.Name, len(p.old), fault.Ready(&pod))
	}
	return nil
}

// ofContainer reports whether a process is of one of the pod's containers: that of its sandbox outlasts them.
func ofContainer(pod corev1.Pod, p nodeprobe.Process) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return p.Container != "" && strings.HasSuffix(c.ContainerID, "://"+p.Container)
	})
}

func (p *processes) seen(ctx context.Context) ([]fault.Fact, error) {
	return fault.Until(ctx, "effect to be seen in the pod", look, injectBound/3,
		func(ctx context.Context) ([]fault.Fact, error) {
			found, _, err := p.look(ctx)
			if err != nil {
				return nil, err
			}
			sentence, err := p.judge(p.old, found.Processes)
			if err != nil {
				return nil, err
			}
			return fault.Seen(history.At(found.At), "%s", sentence), nil
		})
}

// gone waits until the pod is Ready and runs no program of the experiment.
func (p *processes) gone(ctx context.Context) ([]fault.Fact, error) {
	return fault.Until(ctx, "pod to be Ready without the effect", look, recoverBound,
		func(ctx context.Context) ([]fault.Fact, error) {
			found, pod, err := p.look(ctx)
			if err != nil {
				return nil, err
			}
			if sentence, err := stressed(nil, found.Processes); err == nil {
				return nil, fault.NotYet("%s", sentence)
			}
			if !fault.Ready(&pod) || len(found.Processes) == 0 {
				return nil, fault.NotYet("Ready is %t", fault.Ready(&pod))
			}
			return fault.Seen(history.At(found.At), "pod %q is Ready with %d processes, none of which stresses",
				pod.Name, len(found.Processes)), nil
		})
}

// files is a probe that reads the attributes of files of the victim's volume, in the mount namespace of the victim's
// process, which IOChaos changes.
type files struct {
	processes
	volume string
	match  string // The glob of IOChaos; empty for every file.
	delay  time.Duration
	errno  syscall.Errno
	share  int           // Of calls, in percent.
	paths  []string      // The files to read.
	usual  time.Duration // The shortest time before the experiment; 0 if unknown.
}

func newFiles(obj *v1alpha1.IOChaos, env fault.Env) *files {
	delay, _ := time.ParseDuration(obj.Spec.Delay) // Validated at import.
	share := obj.Spec.Percent
	if share == 0 {
		share = 100
	}
	return &files{
		processes: processes{env: env}, volume: obj.Spec.VolumePath, match: obj.Spec.Path, delay: delay,
		errno: syscall.Errno(obj.Spec.Errno), share: share,
	}
}

const (
	maxFiles = 5
	// sure is the accepted probability of missing a share of calls by chance.
	sure = 1e-6
	// maxCalls is how many calls fit into the time in which the effect must be seen.
	maxCalls = 100
)

// attempts returns how many calls are needed to hit the affected share.
func (f *files) attempts() int {
	if f.share >= 100 {
		return max(3, f.needed())
	}
	return int(math.Ceil(math.Log(sure)/math.Log(1-float64(f.share)/100))) + 1
}

// needed returns how many calls of a round must show the effect. A call can be slow by chance on a busy machine, so
// short delays must be seen several times. No call fails with the planned error by chance.
func (f *files) needed() int {
	if f.errno != 0 || f.delay <= 0 {
		return 1
	}
	return int(min(max((time.Second+f.delay-1)/f.delay, 1), 5))
}

// find chooses the files, through the root directory of the process that runs in the pod.
func (f *files) find(ctx context.Context) error {
	found, _, err := f.look(ctx)
	if err != nil {
		return err
	}
	for _, p := range found.Processes {
		root := fmt.Sprintf("/proc/%d/root", p.PID)
		out, err := clusters.Run(ctx, f.env.Node, "find", root+f.volume, "-mindepth", "1",
			"-maxdepth", "2", "-type", "f")
		var exit *clusters.ExitError
		if errors.As(err, &exit) {
			continue // The volume is not mounted there, or the process has ended.
		}
		if err != nil {
			return err
		}
		f.paths = nil
		for line := range strings.Lines(out) {
			name := strings.TrimSpace(line)
			if f.matches(strings.TrimPrefix(name, root)) && len(f.paths) < maxFiles {
				f.paths = append(f.paths, name)
			}
		}
		if len(f.paths) > 0 {
			return nil
		}
	}
	return fmt.Errorf("no file of %s in pod %q matches %q: nothing could be seen", f.volume, f.env.Pod, f.match)
}

// matches reports whether IOChaos affects a file. Two asterisks match any number of directories.
func (f *files) matches(name string) bool {
	if f.match == "" {
		return true
	}
	if before, after, below := strings.Cut(f.match, "/**/"); below {
		ok, err := path.Match(after, path.Base(name))
		return strings.HasPrefix(name, before+"/") && (ok && err == nil || after == "*")
	}
	ok, err := path.Match(f.match, name)
	return ok && err == nil
}

// ask reads one file's attributes and returns the time it took and the error's text.
func (f *files) ask(ctx context.Context, name string) (took time.Duration, said string, err error) {
	begin := f.env.Clock()
	res, err := f.env.Node.Exec(ctx, clusters.Command{Argv: []string{"stat", "--format=%s", name}})
	took = f.env.Clock().Sub(begin)
	var exit *clusters.ExitError
	if errors.As(err, &exit) {
		return took, string(res.Stderr) + exit.Stderr, nil
	}
	return took, "", err
}

// effect reports whether an answer shows the planned effect.
func (f *files) effect(took time.Duration, said string) bool {
	if f.errno != 0 {
		return strings.Contains(strings.ToLower(said), strings.ToLower(f.errno.Error()))
	}
	return took >= f.usual+f.delay*9/10
}

// round is the outcome of reading the files in turn.
type round struct {
	asked, shown int
	least        time.Duration // The shortest answer.
	last         string        // Describes the last answer that showed the effect.
}

// round reads the files in turn and stops once enough answers have shown the effect.
func (f *files) round(ctx context.Context, times, enough int) (round, error) {
	r := round{least: math.MaxInt64}
	for r.asked < times && r.shown < enough {
		name := f.paths[r.asked%len(f.paths)]
		took, said, err := f.ask(ctx, name)
		if err != nil {
			return r, err
		}
		r.asked, r.least = r.asked+1, min(r.least, took)
		if !f.effect(took, said) {
			continue
		}
		r.shown++
		r.last = fmt.Sprintf("the attributes of %s took %s", plan.Printable(name, 300), took.Round(time.Millisecond))
		if said = strings.TrimSpace(said); said != "" {
			r.last += ": " + plan.Printable(said, 300)
		}
	}
	return r, nil
}

func (f *files) before(ctx context.Context) error {
	if err := f.find(ctx); err != nil {
		return err
	}
	f.usual = 0
	r, err := f.round(ctx, 2*maxFiles, 1)
	if err == nil && r.shown > 0 {
		err = fmt.Errorf("a call takes as long, or fails, without the fault: it could not be seen: %s", r.last)
	}
	if err == nil {
		f.usual = r.least
	}
	return err
}

func (f *files) seen(ctx context.Context) ([]fault.Fact, error) {
	if len(f.paths) == 0 {
		return nil, errors.New("no file was chosen before")
	}
	return fault.Until(ctx, "files of the volume to show the effect", look, injectBound/3,
		func(ctx context.Context) ([]fault.Fact, error) {
			begin := f.env.Clock()
			r, err := f.round(ctx, f.attempts(), f.needed())
			if err == nil && r.shown < f.needed() {
				err = fault.NotYet("%d of %d calls did, want %d", r.shown, r.asked, f.needed())
			}
			if err != nil {
				return nil, err
			}
			return f.env.Saw(begin, "%d of %d calls for attributes of files of %s show the effect: %s", r.shown,
				r.asked, f.volume, r.last), nil
		})
}

func (f *files) gone(ctx context.Context) ([]fault.Fact, error) {
	return fault.Until(ctx, "files of the volume not to show the effect", look, recoverBound,
		func(ctx context.Context) ([]fault.Fact, error) {
			if err := f.find(ctx); err != nil { // The pod may have been replaced.
				return nil, err
			}
			begin, n := f.env.Clock(), max(f.attempts(), maxFiles)
			r, err := f.round(ctx, n, 1)
			if err == nil && r.shown > 0 {
				err = fault.NotYet("%s", r.last)
			}
			if err != nil {
				return nil, err
			}
			return f.env.Saw(begin, "none of %d calls for attributes of %d files of %s shows the effect", n,
				len(f.paths), f.volume), nil
		})
}
