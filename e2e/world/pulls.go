package world

import (
	"github.com/seatrial/seatrial/chaos/history"
)

// Pulled is a disk that was pulled out of a node, proven from that node's side (history.Pull.Proven).
//
// Its meaning depends on the check. Mounts and AttachOrder ask which nodes can reach a volume: for them a mount of a
// pulled disk is over, though it is still in the node's mount table. For DetachOrder, StageOrder and MountResidue,
// which ask what Kubernetes did in which order, for UnpublishInUse, which asks when a mount was taken away, and for
// PodIdentity, which asks what processes live, a pull changes nothing. Rows, Checksums, RightVolume and Witness judge
// the content of a volume and use neither mounts nor pulls.
type Pulled struct {
	*history.Pull
	Event *history.Event
	// Mounts from before the pull are dead for good: their file system was shut down, and a device without blocks never
	// gets any back. Later mounts are dead too until the volume is staged again: from perhaps on it may have been, from
	// anew on it certainly was. Both are Forever if it was not.
	perhaps, anew history.Time
}

// Pulls holds the pulls of disks. Unproven ones count for nothing.
type Pulls struct {
	proven   []*Pulled
	Unproven []*history.Event
}

// readPulls reads the pulls. A volume counts as not staged again only while the node's driver was watched.
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

// stagedAnew returns since when, after the begin of a pull, the volume may have been staged on that node again (a
// NodeStageVolume call was running, or one may have been missed), and since when it certainly was (the begin of a call
// that succeeded).
func (l *Calls) stagedAnew(pull *history.Event, s *Trial) (perhaps, anew history.Time) {
	begun := pull.Span.NotBefore
	perhaps, anew = Forever, Forever
	for _, c := range l.On(RPCStage, pull.Pull.Volume, pull.Pull.Node) {
		if c.Ended().NotAfter <= begun {
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

// Cut returns a mount as its node could use it, and the pull that ended it: the mount is over once its disk was pulled.
// If a pull only may have ended the mount, it is certain up to the pull and the returned pull is nil. Any other mount
// is returned unchanged, with nil.
func (p *Pulls) Cut(life *Mount) (*Mount, *Pulled) {
	var by *Pulled
	for _, pull := range p.proven {
		if !pull.concerns(life) || life.MaybeTo <= pull.Event.Span.NotBefore {
			continue
		}
		short := *life
		short.doubted = short.doubted || life.From > pull.Event.Span.NotBefore
		// The node had the disk until the pull began, and no longer once the pull had ended.
		short.To = max(short.From, min(short.To, pull.Event.Span.NotBefore))
		if life.From <= pull.perhaps {
			short.MaybeTo = max(short.MaybeFrom, min(short.MaybeTo, pull.Event.Span.NotAfter))
			by = pull
		}
		life = &short
	}
	return life, by
}

// concerns reports whether a mount is or may be of the pulled device. A mount that appeared when the volume may have
// been staged again can be of that device or of a new one with the same number.
func (p *Pulled) concerns(life *Mount) bool {
	return life.Node == p.Node && life.boot == p.Boot && life.device == p.Identity.Device &&
		life.Key == p.Identity.Key() && (life.From <= p.perhaps || life.MaybeFrom < p.anew)
}
