package plan

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Render writes p as text for a person to read before anything is touched: the steps with their bounds, and what
// will be hurt and for how long.
func (p Plan) Render(w io.Writer) error {
	_, err := io.WriteString(w, p.RenderAt(0)+p.renderHurt())
	return err
}

// RenderAt returns the plan as text, with an arrow at step n, where the trial ended; 0 is no step.
func (p Plan) RenderAt(n int) string {
	var b strings.Builder
	wl, bounds := p.Workload, p.Bounds
	fmt.Fprintf(&b, "plan %s, seed %d\n", p.Scenario, p.Seed)
	line := func(title string, when bool, format string, args ...any) {
		if when {
			fmt.Fprintf(&b, "  %-10s"+format+"\n", append([]any{title}, args...)...)
		}
	}
	line("cluster", true, "1 control plane, %s", Count(p.Workers, "worker"))
	line("version", p.Kubernetes != "", "%s at the start", p.Kubernetes)
	line("gates", len(p.FeatureGates) > 0, "%s on", strings.Join(p.FeatureGates, ", "))
	if x := wl.External; x != nil {
		where := fmt.Sprintf("that is there in namespace %q", x.Namespace)
		if x.Manifests != "" {
			where = "of the plan's manifests"
		}
		line("workload", true, "StatefulSet %q %s, %s, on what its claims ask for", wl.StatefulSet, where,
			Count(wl.Replicas, "replica"))
		line("client", true, "%q, to port %d", strings.Join(x.Command, " "), x.Port)
	} else {
		line("workload", true, "%s: StatefulSet %q, %s, %d MiB of %s each",
			wl.Name, wl.StatefulSet, Count(wl.Replicas, "replica"), wl.VolumeMiB, wl.FileSystem)
	}
	line("volumes", wl.Fencing != "", "%s, fencing %s", wl.StorageName(), wl.Fencing)
	line("volumes", wl.Attacher != "", "attached by each node's kubelet (FlexVolume)")
	line("volumes", wl.Zones > 1, "each in one of %d zones, which the workers are in by turns", wl.Zones)
	line("volumes", wl.Binding != "", "bound %s", wl.Binding)
	for i, sizes := range wl.LocalVolumes {
		line("volumes", true, "of worker %d, in MiB: %s", i+1, strings.Trim(fmt.Sprint(sizes), "[]"))
	}
	line("pods", wl.Packed, "on one node where possible")
	line("pods", wl.Pinned, "on the first worker, and nowhere else")
	line("pods", wl.Parallel, "not in order: podManagementPolicy Parallel")
	line("pods", wl.PreStop > 0, "stop %s after they were told to", wl.PreStop)
	line("database", !wl.Durable(), "not durable: innodb_flush_log_at_trx_commit=%d, sync_binlog=%d", wl.FlushLog(),
		wl.SyncLog())
	line("set", wl.Replicated, "every instance but the first is a copy of it")
	writers := "with one writer, which the clients follow"
	if wl.Multi() {
		writers = "in which each takes writes; the clients are spread over it"
	}
	line("topology", wl.Grouped(), "%s: one group %s", wl.Topology, writers)
	line("topology", wl.ManualFailover, "a primary that does not answer is not replaced")
	line("set", wl.UpdateStrategy != "", "updateStrategy %s", wl.UpdateStrategy)
	line("set", wl.Partition != 0, "partition %d", wl.Partition)
	line("set", wl.MaxUnavailable != 0, "maxUnavailable %d", wl.MaxUnavailable)
	line("set", wl.MinReadySeconds != 0, "minReadySeconds %d", wl.MinReadySeconds)
	line("set", wl.Start != 0, "first ordinal %d", wl.Start)
	line("set", wl.MinAvailable != 0, "a PodDisruptionBudget, minAvailable %d", wl.MinAvailable)
	line("set", wl.WhenDeleted != "", "claims when it is deleted: %s", wl.WhenDeleted)
	line("set", wl.WhenScaled != "", "claims when it is scaled down: %s", wl.WhenScaled)
	silent, end := "", ";"
	if wl.Silent {
		silent = ", to an address where nobody listens"
	}
	if wl.Light {
		end = ""
	}
	line("clients", wl.Light, "none: the containers do nothing, and there is no data")
	whose := "each instance"
	if wl.Grouped() {
		whose = "the group"
	}
	line("clients", !wl.Light, "%d for %s, one operation every %s%s; %d quiet rows",
		wl.Clients, whose, wl.Interval, silent, wl.QuietRows)
	line("clients", wl.Transactions > 0, "%d more for %s carry out transactions on lists", wl.Transactions, whose)
	line("clients", wl.Registers > 0, "%d more for %s write and read registers", wl.Registers, whose)
	line("clients", wl.Transfers > 0, "%d more for %s move money between accounts", wl.Transfers, whose)
	line("hurt", bounds.MaxNodes > 0, "at most %s at the same time", Count(bounds.MaxNodes, "node"))
	line("bounds", true, "ready in %s, settled in %s, blind for at most %s%s", bounds.Ready, bounds.Settle,
		bounds.BlindGap, end)
	line("", bounds.Failover > 0, "a fault keeps the group from taking writes for at most %s", bounds.Failover)
	line("", !wl.Light, "at least %s for %s,", Count(bounds.MinOps, "insert"), whose)
	line("", !wl.Light, "at least %s before, during and after each fault", Count(bounds.MinAround, "operation"))
	b.WriteString("  steps\n")
	p.renderSequence(&b, p.Steps, n, "")
	return b.String()
}

func (p Plan) renderSequence(b *strings.Builder, steps []Step, n int, indent string) {
	for _, s := range steps {
		mark := "   "
		if s.N == n {
			mark = "-->"
		}
		fmt.Fprintf(b, "  %s %3d  %-58s within %s\n", mark, s.N, indent+p.Describe(s), s.Bound)
		if s.Note != "" {
			fmt.Fprintf(b, "           %s(%s)\n", indent, s.Note)
		}
		for i, within := range s.inner() {
			deeper := indent + "  "
			if len(s.Branches) > 0 && s.Fault == nil {
				fmt.Fprintf(b, "           %sbeside %d:\n", deeper, i+1)
				deeper += "  "
			}
			p.renderSequence(b, *within.steps, n, deeper)
		}
	}
}

// renderHurt lists what is hurt and for how long.
func (p Plan) renderHurt() string {
	var b strings.Builder
	b.WriteString("  will be hurt\n")
	var hurts []string
	for _, s := range p.AllSteps() {
		if k, ok := s.whole(); ok && k.hurts != nil {
			if what := k.hurts(p, s); !slices.Contains(hurts, what) {
				hurts = append(hurts, what)
			}
		}
	}
	if hurts == nil {
		hurts = []string{"nothing"}
	}
	for _, what := range hurts {
		fmt.Fprintf(&b, "    %s\n", what)
	}
	longest := time.Duration(0)
	for _, s := range p.Steps {
		longest += s.Bound.D()
	}
	fmt.Fprintf(&b, "  all steps together take at most %s\n", longest)
	return b.String()
}
