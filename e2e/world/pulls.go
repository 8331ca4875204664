package world

import (
	"github.com/seatrial/seatrial/chaos/history"
)

// Pulled is a disk that was taken out of a node, shown from that node's side (history.Pull.Proven).
//
// What it means is for each check to say, by its promise. Mounts and AttachOrder ask which nodes can reach a volume:
// for them a mount of a pulled disk is over, though it is still in the node's mount table. DetachOrder, StageOrder and
// MountResidue ask what Kubernetes did, and in which order, UnpublishInUse when a mount was taken away, and PodIdentity
// which processes live: for them nothing has changed. Rows, Checksums, RightVolume and Witness ask what is in a volume,
// and know neither mounts nor pulls.
type Pulled struct {
	*history.Pull
	Event *history.Event
	// What was there when the disk was pulled is dead for good: the file system that was shut down is, and a device
	// without blocks is never given any back. So is what is mounted later, up to perhaps: the volume may have been
	// staged anew since then, and since anew it has been. Both are forever when it was not.
	perhaps, anew history.Time
}

// Pulls are the pulls that count, and those that do not.
type Pulls struct {
	proven   []*Pulled
	Unproven []*history.Event
}

// readPulls reads them. That a volume was not staged again is believed for as long as the node's driver was watched.
func readPulls(w *World) *Pulls {
	p := &Pulls{}
	s, err := w.Trial()
	if err != nil {
		return p
	}
	for _, e := range w.Of(history.KindPull) {
		if !e.Pull.Proven() {
			p.Unproven = append(p.Unproven, e)
			continue
		}
		out := &Pulled{Pull: e.Pull, Event: e}
		out.perhaps, out.anew = w.Calls().stagedAnew(e, s)
		p.proven = append(p.proven, out)
	}
	return p
}

// stagedAnew says since when, from the begin of a pull on, the volume may have been staged on that node again: since a
// call to do that was under way, whatever came of it, or one may have been missed; and since when it has been: since
// the begin of such a call that ended well.
func (l *Calls) stagedAnew(pull *history.Event, s *Trial) (perhaps, anew history.Time) {
	begun := pull.Span.NotBefore
	perhaps, anew = Forever, Forever
	for _, c := range l.Of(RPCStage) {
		if !c.Is(RPCStage, pull.Pull.Volume, pull.Pull.Node) || c.Ended().NotAfter <= begun {
			continue
		}
		at := max(begun, c.Began().NotBefore)
		perhaps = min(perhaps, at)
		if c.Took() {
			anew = min(anew, at)
		}
	}
	after := history.Span{NotBefore: begun, NotAfter: s.LookedUntil()}
	for _, hole := range l.Driver.Holes(pull.Pull.Node, after, s) {
		perhaps = min(perhaps, hole.NotBefore)
	}
	return perhaps, anew
}

// Cut returns a mount as its node could use it: over, once its disk was pulled, and the pull that ended it. One that a
// pull may have ended is certain only up to then, and comes with nil, as does any other, which is left as it is.
func (p *Pulls) Cut(life *Mount) (*Mount, *Pulled) {
	var by *Pulled
	for _, pull := range p.proven {
		if !pull.concerns(life) || life.MaybeTo <= pull.Event.Span.NotBefore {
			continue
		}
		short := *life
		// The node had the disk until the pull began, and has not had it since the pull had ended.
		short.To = max(short.From, min(short.To, pull.Event.Span.NotBefore))
		if life.From <= pull.perhaps {
			short.MaybeTo = max(short.MaybeFrom, min(short.MaybeTo, pull.Event.Span.NotAfter))
			by = pull
		}
		life = &short
	}
	return life, by
}

// concerns reports that a mount is one of the device that was pulled, or may be: one that appeared when the volume had
// perhaps been staged anew is of that device, or of another that has its number.
func (p *Pulled) concerns(life *Mount) bool {
	return life.Node == p.Node && life.boot == p.Boot && life.device == p.Identity.Device &&
		life.Key == p.Identity.Key() && (life.From <= p.perhaps || life.MaybeFrom < p.anew)
}
