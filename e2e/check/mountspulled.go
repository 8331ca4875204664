package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/e2e/world"
)

// cutPulled ends the volume's mounts whose disk was pulled, and notes what was seen of it.
func (v *volume) cutPulled(p *world.Pulls, seen *world.Containers, s *world.Trial, r *ruling) {
	count := map[*world.Pulled]int{}
	var by []*world.Pulled
	for i, life := range v.lives {
		var pull *world.Pulled
		if v.lives[i], pull = p.Cut(life); pull == nil {
			continue
		}
		if count[pull] == 0 {
			by = append(by, pull)
		}
		count[pull]++
	}
	for _, pull := range by {
		r.note("volume %s: %d mounts on %s count as over from %s on, at the latest: its disk was pulled out of that "+
			"node (%s)%s", v.name, count[pull], pull.Node, s.Clock(pull.Event.Span.NotAfter), tried(pull),
			ends(pull, v, seen, s))
	}
}

// tried says what the node got from the disk.
func tried(p *world.Pulled) string {
	var all []string
	for _, t := range p.Tries {
		all = append(all, t.String())
	}
	return strings.Join(all, ", ")
}

// ends says what became of the database processes that were at work on the disk.
func ends(p *world.Pulled, v *volume, seen *world.Containers, s *world.Trial) string {
	var all []string
	for _, proc := range seen.Processes {
		had := slices.ContainsFunc(v.lives, func(l *world.Mount) bool {
			return l.Node == p.Node && l.Pod != "" && l.Pod == proc.Pod
		})
		if !had || proc.Name != world.Database || proc.Node != p.Node || proc.From > p.Event.Span.NotBefore ||
			proc.MaybeTo <= p.Event.Span.NotBefore {
			continue
		}
		if proc.Ended {
			all = append(all, fmt.Sprintf("%s (pid %d) was gone by %s", proc.Name, proc.Pid, s.Clock(proc.MaybeTo)))
		} else {
			all = append(all, fmt.Sprintf("%s (pid %d) was not seen to end", proc.Name, proc.Pid))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "; " + strings.Join(all, ", ")
}

// noteUnproven tells of the pulls that count for nothing, and why.
func noteUnproven(p *world.Pulls, objects *world.Storage, s *world.Trial, r *ruling) {
	for _, e := range p.Unproven {
		name, why := e.Pull.Volume, e.Pull.Error
		if pv := objects.ByHandle(name); pv != nil {
			name = pv.Name
		}
		if why == "" {
			why = "that node was not shown to get nothing from it"
		}
		r.note("volume %s: that its disk was pulled out of %s by %s counts for nothing: %s", name, e.Pull.Node,
			s.Clock(e.Span.NotAfter), why)
	}
}
