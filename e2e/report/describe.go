package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

func describe(e *history.Event) string {
	switch {
	case e.Op != nil:
		return describeOp(e.Op)
	case e.Rows != nil:
		return fmt.Sprintf("%s read of %s, chunk %d of %d: %d rows%s",
			e.Rows.Read, e.Rows.Instance, e.Rows.Chunk, e.Rows.Chunks, len(e.Rows.Rows), because(e.Rows.Error))
	case e.Object != nil:
		o := e.Object
		return fmt.Sprintf("%s %s %s, resourceVersion %s", o.Resource, o.Name, o.Verb, o.ResourceVersion)
	case e.Fault != nil:
		f := e.Fault
		return fmt.Sprintf("step %d %s on %s (%s): %s%s %s",
			f.Step, f.Name, f.Node, f.Victim, f.Stage, because(f.Error), strings.Join(f.Evidence, "; "))
	case e.Phase != nil:
		name, edge := "phase "+string(e.Phase.Name), "began"
		if e.Phase.Name == history.PhaseStep {
			name = fmt.Sprintf("step %d", e.Phase.Step)
		}
		if e.Phase.End {
			edge = "ended"
		}
		return fmt.Sprintf("%s %s %s%s", name, edge, e.Phase.Detail, because(e.Phase.Error))
	case e.Process != nil:
		return fmt.Sprintf("%s process %s (pid %d) %s", e.Process.Node, e.Process.Name, e.Process.PID,
			e.Process.Action)
	case e.Checksum != nil:
		c := e.Checksum
		return fmt.Sprintf("checksum %q of %s.%s: %d rows, CHECKSUM TABLE %d, row hash %.12s%s",
			c.Label, c.Instance, c.Table, c.Rows, c.Table64, c.RowHash, because(c.Error))
	case e.Observer != nil:
		return fmt.Sprintf("observer %s %s %s %s", e.Observer.Name, e.Observer.Node, e.Observer.State,
			e.Observer.Detail)
	case e.Mount != nil:
		m := e.Mount
		what := cmp.Or(m.Identity.BackingFile, m.Identity.Key())
		return fmt.Sprintf("%s %s of mount %d %s %s", m.Node, m.Action, m.MountID, m.Path, what)
	case e.Volume != nil:
		return fmt.Sprintf("volume %s on %s at %s", e.Volume.PV, e.Volume.Node, e.Volume.Path)
	case e.CSI != nil:
		return describeCall(e.CSI)
	case e.Holding != nil:
		h := e.Holding
		return fmt.Sprintf("%s %s (pid %d, pod %s) has %s at %s: %s", h.Node, h.Program, h.PID, h.PodUID,
			cmp.Or(h.Identity.BackingFile, h.Identity.Key()), h.Path, h.Action)
	case e.Witness != nil:
		w := e.Witness
		return fmt.Sprintf("witness %q of %s on %s: volume %s says it is %q, %d entries, %d torn%s",
			w.Label, w.Instance, w.Node, w.PV, w.Volume, len(w.Entries), w.Torn, because(w.Error))
	case e.Pull != nil:
		tries := make([]string, len(e.Pull.Tries))
		for i, t := range e.Pull.Tries {
			tries[i] = t.String()
		}
		return fmt.Sprintf("%s volume %s is pulled out of it%s; %s", e.Pull.Node, e.Pull.Volume, because(e.Pull.Error),
			strings.Join(tries, "; "))
	case e.Inspection != nil:
		return describeInspection(e.Inspection)
	case e.VolumeManager != nil:
		m := e.VolumeManager
		if m.Error != "" {
			return fmt.Sprintf("kubelet of %s could not be asked for its volumes%s", m.Node, because(m.Error))
		}
		return fmt.Sprintf("kubelet of %s has %d of %d volumes of %s, %d operations failed", m.Node, m.Actual,
			m.Desired, m.Plugin, m.Failed)
	case e.Await != nil:
		return fmt.Sprintf("step %d has waited for: %s", e.Await.Step, e.Await.What)
	case e.Residue != nil:
		r := e.Residue
		return fmt.Sprintf("%s, %s the trial: %s that a fault can leave%s", cmp.Or(r.Node, "API server"), r.When,
			plan.Count(len(r.Things), "thing"), because(r.Error))
	case e.Member != nil:
		return describeMember(e.Member)
	case e.Promotion != nil:
		p := e.Promotion
		return fmt.Sprintf("promoter: %s%s%s%s", p.Act, plan.Given(" %s", p.Instance), plan.Given(", since %s", p.Why),
			because(p.Error))
	}
	return describeUpgrade(e)
}

func describeUpgrade(e *history.Event) string {
	switch {
	case e.Upgrade != nil:
		edge := "begins"
		if e.Upgrade.End {
			edge = "ended"
		}
		return fmt.Sprintf("upgrade of %s to %s: %s %s%s", e.Upgrade.Node, e.Upgrade.To, e.Upgrade.Part, edge,
			because(e.Upgrade.Error))
	case e.EtcdData != nil:
		health := "is not healthy"
		if e.EtcdData.Healthy {
			health = "is healthy"
		}
		return fmt.Sprintf("etcd of %s after kubeadm failed: %s, %s%s", e.EtcdData.Node, health,
			plan.Count(len(e.EtcdData.Databases), "file"), because(e.EtcdData.Log))
	case e.Version != nil:
		return fmt.Sprintf("%s is %s", e.Version.Component, e.Version.Version)
	}
	return string(e.Kind)
}

func describeMember(m *history.Member) string {
	if m.Error != "" {
		return m.Instance + " could not be asked for its state" + because(m.Error)
	}
	takes := "takes no writes"
	if m.Writable {
		takes = "takes writes"
	}
	return fmt.Sprintf("%s %s%s%s", m.Instance, takes, plan.Given(", is %s", m.State),
		plan.Given(", has transactions %s", m.Executed))
}

func describeInspection(i *history.Inspection) string {
	of := "volume " + i.PV
	if i.Instance != "" {
		of = i.Instance + " " + i.Table
	}
	found := "found damage: " + strings.Join(i.Messages, "; ")
	if i.Clean {
		found = "found no damage"
	}
	if i.Error != "" {
		found = "could not look"
	}
	return fmt.Sprintf("%s of %s %s%s", i.Tool, of, found, because(i.Error))
}

func describeCall(c *history.CSI) string {
	what := fmt.Sprintf("%s%s for node %s", c.RPC, plan.Given(" of volume %s", c.Volume), c.For)
	what += plan.Given(", fault point %s", c.Point)
	if !c.End {
		return what + ": begins"
	}
	attached := plan.Given(", attached to %s", strings.Join(c.Attached, " and "))
	return fmt.Sprintf("%s: %s%s%s", what, c.Code, because(c.Error), attached)
}

func describeOp(o *history.Op) string {
	what := fmt.Sprintf("client %d: %s of seq %d", o.Client, o.F, o.Seq)
	if o.Txn != nil {
		what = fmt.Sprintf("client %d: transaction %d, %s,", o.Client, o.Number, o.Txn.Level)
	}
	switch {
	case o.Stage == history.StageInvoke:
		return what + " sent to " + o.Instance
	case o.Found != nil && !*o.Found:
		return what + ": not found on " + o.Instance
	case o.Found != nil:
		return fmt.Sprintf("%s: found on %s, crc %08x", what, o.Instance, o.CRC)
	}
	return fmt.Sprintf("%s: %s on %s%s", what, o.Stage, o.Instance, because(o.Error))
}

func because(err string) string { return plan.Given(" (%s)", err) }
