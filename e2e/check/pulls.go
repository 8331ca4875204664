package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// pulled is a disk that was taken out of a node, shown from that node's side (history.Pull.Proven).
//
// What it means is for each check to say, by its promise. Mounts and AttachOrder ask which nodes can reach a volume:
// for them a mount of a pulled disk is over, though it is still in the node's mount table. DetachOrder, StageOrder and
// MountResidue ask what Kubernetes did, and in which order, UnpublishInUse when a mount was taken away, and PodIdentity
// which processes live: for them nothing has changed. Rows, Checksums, RightVolume and Witness ask what is in a volume,
// and know neither mounts nor pulls.
type pulled struct {
	*history.Pull
	event *history.Event
	// What was there when the disk was pulled is dead for good: the file system that was shut down is, and a device
	// without blocks is never given any back. So is what is mounted later, up to perhaps: the volume may have been
	// staged anew since then, and since anew it has been. Both are forever when it was not.
	perhaps, anew history.Time
}

// pulls are the pulls that count, and those that do not.
type pulls struct {
	proven   []*pulled
	unproven []*history.Event
}

// readPulls reads them. That a volume was not staged again is believed for as long as the node's driver was watched.
func readPulls(h history.History, s *scene) *pulls {
	p := &pulls{}
	var log *callLog
	for i := range h.Events {
		e := &h.Events[i]
		switch {
		case e.Kind != history.KindPull || e.Pull == nil:
		case !e.Pull.Proven():
			p.unproven = append(p.unproven, e)
		default:
			if log == nil {
				log = readCalls(h)
			}
			out := &pulled{Pull: e.Pull, event: e}
			out.perhaps, out.anew = log.stagedAnew(e, s, h)
			p.proven = append(p.proven, out)
		}
	}
	return p
}

// stagedAnew says since when, from the begin of a pull on, the volume may have been staged on that node again: since a
// call to do that was under way, whatever came of it, or one may have been missed; and since when it has been: since
// the begin of such a call that ended well.
func (l *callLog) stagedAnew(pull *history.Event, s *scene, h history.History) (perhaps, anew history.Time) {
	begun := pull.Span.NotBefore
	perhaps, anew = forever, forever
	for _, c := range l.of(rpcStage) {
		if !c.is(rpcStage, pull.Pull.Volume, pull.Pull.Node) || c.ended().NotAfter <= begun {
			continue
		}
		at := max(begun, c.began().NotBefore)
		perhaps = min(perhaps, at)
		if c.ok() && c.Point != "lie" {
			anew = min(anew, at)
		}
	}
	after := history.Span{NotBefore: begun, NotAfter: s.lastSight(h)}
	for _, hole := range l.driver.holes(pull.Pull.Node, after, s) {
		perhaps = min(perhaps, hole.NotBefore)
	}
	return perhaps, anew
}

// cut returns a mount as its node could use it: over, once its disk was pulled, and the pull that ended it. One that a
// pull may have ended is certain only up to then, and comes with nil, as does any other, which is left as it is.
func (p *pulls) cut(life *mountLife) (*mountLife, *pulled) {
	var by *pulled
	for _, pull := range p.proven {
		if !pull.concerns(life) || life.maybeTo <= pull.event.Span.NotBefore {
			continue
		}
		short := *life
		// The node had the disk until the pull began, and has not had it since the pull had ended.
		short.to = max(short.from, min(short.to, pull.event.Span.NotBefore))
		if life.from <= pull.perhaps {
			short.maybeTo = max(short.maybeFrom, min(short.maybeTo, pull.event.Span.NotAfter))
			by = pull
		}
		life = &short
	}
	return life, by
}

// concerns reports that a mount is one of the device that was pulled, or may be: one that appeared when the volume had
// perhaps been staged anew is of that device, or of another that has its number.
func (p *pulled) concerns(life *mountLife) bool {
	return life.node == p.Node && life.boot == p.Boot && life.device == p.Identity.Device &&
		life.key == p.Identity.Key() && (life.from <= p.perhaps || life.maybeFrom < p.anew)
}

// cutPulled ends the volume's mounts whose disk was pulled, and notes what was seen of it.
func (v *volume) cutPulled(p *pulls, seen *containers, s *scene, r *ruling) {
	count := map[*pulled]int{}
	var by []*pulled
	for i, life := range v.lives {
		var pull *pulled
		if v.lives[i], pull = p.cut(life); pull == nil {
			continue
		}
		if count[pull] == 0 {
			by = append(by, pull)
		}
		count[pull]++
	}
	for _, pull := range by {
		r.note("volume %s: %d mounts on %s count as over from %s on, at the latest: its disk was pulled out of that "+
			"node (%s)%s", v.name, count[pull], pull.Node, s.clock(pull.event.Span.NotAfter), pull.tried(),
			pull.ends(v, seen, s))
	}
}

// tried says what the node got from the disk.
func (p *pulled) tried() string {
	var all []string
	for _, t := range p.Tries {
		all = append(all, t.String())
	}
	return strings.Join(all, ", ")
}

// ends says what became of the database processes that were at work on the disk.
func (p *pulled) ends(v *volume, seen *containers, s *scene) string {
	var all []string
	for _, proc := range seen.processes {
		had := slices.ContainsFunc(v.lives, func(l *mountLife) bool {
			return l.node == p.Node && l.pod != "" && l.pod == proc.pod
		})
		if !had || proc.name != database || proc.node != p.Node || proc.from > p.event.Span.NotBefore ||
			proc.maybeTo <= p.event.Span.NotBefore {
			continue
		}
		if proc.ended {
			all = append(all, fmt.Sprintf("%s (pid %d) was gone by %s", proc.name, proc.pid, s.clock(proc.maybeTo)))
		} else {
			all = append(all, fmt.Sprintf("%s (pid %d) was not seen to end", proc.name, proc.pid))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "; " + strings.Join(all, ", ")
}

// noteUnproven tells of the pulls that count for nothing, and why.
func (p *pulls) noteUnproven(objects *storageObjects, s *scene, r *ruling) {
	for _, e := range p.unproven {
		name, why := e.Pull.Volume, e.Pull.Error
		if pv := objects.byHandle(name); pv != nil {
			name = pv.name
		}
		if why == "" {
			why = "that node was not shown to get nothing from it"
		}
		r.note("volume %s: that its disk was pulled out of %s by %s counts for nothing: %s", name, e.Pull.Node,
			s.clock(e.Span.NotAfter), why)
	}
}
