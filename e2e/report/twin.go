package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/e2e/certify/twin"
)

// WriteTwin writes for people what a twin has, what it has not, and at the end some lines as they are.
func WriteTwin(w io.Writer, title string, t twin.Twin, end []string) error {
	p := &page{}
	p.text("", title)
	for _, scaled := range t.Scaled {
		p.text("  ", scaled)
	}
	p.heading("COPIED")
	for _, component := range slices.Sorted(maps.Keys(t.Flags)) {
		for _, flag := range slices.Sorted(maps.Keys(t.Flags[component])) {
			p.text("  "+component+": ", fmt.Sprintf("--%s=%s", flag, t.Flags[component][flag]))
		}
	}
	if len(t.Kubelet) > 0 {
		p.text("  kubelets: ", strings.Join(slices.Sorted(maps.Keys(t.Kubelet)), ", "))
	}
	for _, s := range t.StatefulSets {
		p.text("  StatefulSet ", s.Namespace+"/"+s.Name)
	}
	for _, b := range t.Budgets {
		p.text("  PodDisruptionBudget ", b.Namespace+"/"+b.Name)
	}
	for _, c := range t.Classes {
		p.text("  StorageClass ", c.Name)
	}
	p.heading("NOT COPIED")
	for _, l := range t.Left {
		p.text("  - ", l.What+": "+l.Why)
	}
	p.blank()
	if err := p.write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, cleanLines(end))
	return err
}
