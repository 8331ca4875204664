package plan

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// Render writes p as text for a person to read before anything is touched: the steps with their bounds, and what
// will be hurt and for how long.
func (p Plan) Render(w io.Writer) error {
	if err := p.RenderAt(w, 0); err != nil {
		return err
	}
	var b bytes.Buffer
	p.renderHurt(&b)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

// RenderAt writes the plan with an arrow at step n, where the trial ended; 0 is no step.
func (p Plan) RenderAt(w io.Writer, n int) error {
	var b bytes.Buffer
	wl := p.Workload
	fmt.Fprintf(&b, "plan %s, seed %d\n", p.Scenario, p.Seed)
	fmt.Fprintf(&b, "  cluster   1 control plane, %s\n", count(p.Workers, "worker"))
	fmt.Fprintf(&b, "  workload  %s: StatefulSet %q, %s, %d MiB of %s each\n",
		wl.Name, wl.StatefulSet, count(wl.Replicas, "replica"), wl.VolumeMiB, wl.FileSystem)
	if wl.StorageName() != StorageLocal {
		fmt.Fprintf(&b, "  volumes   %s, fencing %s\n", wl.StorageName(), wl.Fencing)
	}
	if wl.Packed {
		b.WriteString("  pods      on one node where possible\n")
	}
	if wl.Pinned {
		b.WriteString("  pods      on the first worker, and nowhere else\n")
	}
	if wl.Parallel {
		b.WriteString("  pods      not in order: podManagementPolicy Parallel\n")
	}
	if wl.PreStop > 0 {
		fmt.Fprintf(&b, "  pods      stop %s after they were told to\n", wl.PreStop)
	}
	if note := wl.durabilityNote(); note != "" {
		b.WriteString("  database  " + note + "\n")
	}
	for _, line := range wl.options() {
		b.WriteString("  set       " + line + "\n")
	}
	p.renderWork(&b)
	b.WriteString("  steps\n")
	p.renderSteps(&b, p.Steps, n, "")
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

// renderWork tells of the clients and of what is held against them.
func (p Plan) renderWork(b *bytes.Buffer) {
	wl, end := p.Workload, ";"
	if wl.Light {
		b.WriteString("  clients   none: the containers do nothing, and there is no data\n")
		end = ""
	} else {
		fmt.Fprintf(b, "  clients   %d for each instance, one operation every %s%s; %d quiet rows\n",
			wl.Clients, wl.Interval, silentNote(wl.Silent), wl.QuietRows)
	}
	if p.Bounds.MaxNodes > 0 {
		fmt.Fprintf(b, "  hurt      at most %s at the same time\n", count(p.Bounds.MaxNodes, "node"))
	}
	fmt.Fprintf(b, "  bounds    ready in %s, settled in %s, blind for at most %s%s\n",
		p.Bounds.Ready, p.Bounds.Settle, p.Bounds.BlindGap, end)
	if !wl.Light {
		fmt.Fprintf(b, "            at least %d inserts for each instance,\n", p.Bounds.MinOps)
		fmt.Fprintf(b, "            at least %d operations before, during and after each fault\n", p.Bounds.MinAround)
	}
}

func (p Plan) renderSteps(b *bytes.Buffer, steps []Step, n int, indent string) {
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
			if len(s.Branches) > 0 && s.Fault == nil {
				fmt.Fprintf(b, "           %s  beside %d:\n", indent, i+1)
				p.renderSteps(b, within, n, indent+"    ")
				continue
			}
			p.renderSteps(b, within, n, indent+"  ")
		}
	}
}

// renderHurt sums up what is hurt and for how long.
func (p Plan) renderHurt(b *bytes.Buffer) {
	b.WriteString("  will be hurt\n")
	none := true
	longest := time.Duration(0)
	for _, s := range p.Steps {
		longest += s.Bound.D()
	}
	for _, s := range p.AllSteps() {
		switch {
		case s.Fault != nil:
			fmt.Fprintf(b, "    the node of %s, by %s%s: %s once shown, never longer than %s\n",
				p.pod(s.Fault.Ordinal), s.Fault.Name, s.Fault.Params.note(), s.Fault.Hold, s.Bound)
		case s.Tamper != nil:
			fmt.Fprintf(b, "    the data of %s, for good: %s\n", p.pod(s.Tamper.Ordinal), s.Tamper.Kind)
		case s.Do == ActionDeleteClaim && s.Ordinal != nil:
			fmt.Fprintf(b, "    the claim of %s, for good: deleted\n", p.pod(*s.Ordinal))
		case s.Do == ActionDeletePod && s.Ordinal != nil:
			fmt.Fprintf(b, "    %s: deleted\n", p.pod(*s.Ordinal))
		case s.Do == ActionDeleteSet:
			fmt.Fprintf(b, "    StatefulSet %q: deleted, %s\n", p.Workload.StatefulSet, s.Cascade)
		default:
			continue
		}
		none = false
	}
	if none {
		b.WriteString("    nothing\n")
	}
	fmt.Fprintf(b, "  all steps together take at most %s\n", longest)
}

func (p Plan) pod(ordinal int) string { return fmt.Sprintf("%s-%d", p.Workload.StatefulSet, ordinal) }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func silentNote(silent bool) string {
	if silent {
		return ", to an address where nobody listens"
	}
	return ""
}
