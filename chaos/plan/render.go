package plan

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// Render writes p as text for a person to read before anything is touched: the steps with their bounds, and what
// will be hurt and for how long.
func (p Plan) Render(w io.Writer) error { return p.RenderAt(w, 0) }

// RenderAt is Render with an arrow at step n, where the trial ended; 0 is no step.
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
	fmt.Fprintf(&b, "  clients   %d for each instance, one operation every %s%s; %d quiet rows\n",
		wl.Clients, wl.Interval, silentNote(wl.Silent), wl.QuietRows)
	fmt.Fprintf(&b, "  bounds    ready in %s, settled in %s, blind for at most %s;\n",
		p.Bounds.Ready, p.Bounds.Settle, p.Bounds.BlindGap)
	fmt.Fprintf(&b, "            at least %d inserts for each instance,\n", p.Bounds.MinOps)
	fmt.Fprintf(&b, "            at least %d operations before, during and after each fault\n", p.Bounds.MinAround)
	b.WriteString("  steps\n")
	p.renderSteps(&b, p.Steps, n, "")
	p.renderHurt(&b)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

func (p Plan) renderSteps(b *bytes.Buffer, steps []Step, n int, indent string) {
	for _, s := range steps {
		mark := "   "
		if s.N == n {
			mark = "-->"
		}
		fmt.Fprintf(b, "  %s %3d  %-58s within %s\n", mark, s.N, indent+p.Describe(s), s.Bound)
		if s.Fault != nil {
			p.renderSteps(b, s.Fault.Provoke, n, indent+"  ")
			p.renderSteps(b, s.Fault.During, n, indent+"  ")
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
			fmt.Fprintf(b, "    the node of %s, by %s: %s once shown, never longer than %s\n",
				p.pod(s.Fault.Ordinal), s.Fault.Name, s.Fault.Hold, s.Bound)
		case s.Tamper != nil:
			fmt.Fprintf(b, "    the data of %s, for good: %s\n", p.pod(s.Tamper.Ordinal), s.Tamper.Kind)
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

// Describe says in one line what a step of the plan does.
func (p Plan) Describe(s Step) string {
	switch {
	case s.Do == ActionLoad:
		return fmt.Sprintf("load: %s more", count(s.Commits, "acknowledged insert"))
	case s.Do == ActionFault && s.Fault != nil:
		families := ""
		if len(s.Fault.Families) > 0 {
			families = ", " + strings.Join(s.Fault.Families, " and ") + " only"
		}
		return fmt.Sprintf("fault: %s on the node of %s%s%s, held %s%s%s", s.Fault.name(), p.pod(s.Fault.Ordinal),
			p.whenNote(*s.Fault), s.Fault.outlastNote(), s.Fault.Hold, families, s.Fault.duringNote())
	case s.Do == ActionScale && s.Replicas != nil:
		return fmt.Sprintf("scale: StatefulSet %q to %s", p.Workload.StatefulSet, count(*s.Replicas, "replica"))
	case s.Do == ActionChecksum:
		return fmt.Sprintf("checksum: the quiet tables of all instances, %q", s.Label)
	case s.Do == ActionTamper && s.Tamper != nil:
		return fmt.Sprintf("tamper: %s in %s", s.Tamper.Kind, p.pod(s.Tamper.Ordinal))
	}
	if s.Do == ActionAwait && s.Await != nil {
		return "await: " + p.describeAwait(*s.Await)
	}
	return string(s.Do)
}

func (p Plan) describeAwait(a Await) string {
	switch a.For {
	case AwaitCSIBegin:
		return fmt.Sprintf("%s of the volume of %s begins", a.RPC, p.pod(a.Ordinal))
	case AwaitCSIEnd:
		return fmt.Sprintf("%s of the volume of %s ends with OK", a.RPC, p.pod(a.Ordinal))
	case AwaitNotReady:
		return fmt.Sprintf("the node of %s is not Ready", p.pod(a.Ordinal))
	}
	return fmt.Sprintf("%s is Ready on another node", p.pod(a.Ordinal))
}

// name is the fault's name, and for a CSI driver's which call and what becomes of it.
func (f Fault) name() string {
	if f.CSI == nil {
		return f.Name
	}
	parts := []string{f.Name, f.CSI.Act}
	if f.CSI.Code != "" {
		parts = append(parts, f.CSI.Code)
	}
	return strings.Join(append(parts, f.CSI.RPC), " ")
}

func (p Plan) whenNote(f Fault) string {
	if f.When == nil {
		return ""
	}
	return ", as soon as " + p.describeAwait(*f.When)
}

func (f Fault) outlastNote() string {
	if !f.Outlast {
		return ""
	}
	return ", healed after the one around it"
}

func (f Fault) duringNote() string {
	if len(f.During) == 0 {
		return ""
	}
	return " after:"
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
