package check

import (
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// DetachOrder judges every call that detaches a volume from a node against what that node had mounted then: itself,
// or within a container.
//
// A detach is one that was answered with success, or after which the driver's table of attachments no longer has the
// node. Mounted is what was certainly there when the call certainly began: the driver may act at any time after that.
// Where the ledger leaves it open, a call of NodeUnstageVolume that ended well before settles it.
//
// That the storage pulls the disk out of the node when it is told to detach changes nothing: the order was broken when
// the call came. It saves what is on the disk from a second writer (Mounts), and not the database that had it mounted.
func DetachOrder() Check {
	return Check{
		Name:    "detach-order",
		Promise: "No volume is detached from a node that still has it mounted.",
		Source: "CSI specification 1.11, ControllerUnpublishVolume: only after NodeUnstageVolume and " +
			"NodeUnpublishVolume have succeeded on that node; kubernetes/kubernetes issues 61832, 120328 and 121937",
		Applies: onSharedDisk,
		Judge:   judgeDetachOrder,
	}
}

func judgeDetachOrder(h history.History) Result {
	r := newRuling("calls that attach, detach, stage and publish")
	s, err := setScene(h)
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	d := readDisks(h, s, r)
	d.judgeCalls(rpcAttach, rpcDetach, rpcStage, rpcPublish)
	d.ledger.judge(h, d.window(), s, r)
	table := map[string][]string{} // By volume: which nodes it was attached to after the last call.
	for _, c := range d.log.of(rpcAttach, rpcDetach) {
		if c.RPC == rpcDetach && c.begin != nil {
			d.judgeDetach(c, c.detached(table[c.Volume]))
		}
		if c.end != nil {
			table[c.Volume] = c.Attached
		}
	}
	return r.result()
}

// detached reports that the call took the volume from the node, given the table before it. One that was made to fail
// on purpose did nothing.
func (c *csiCall) detached(before []string) bool {
	if c.ok() {
		return true
	}
	return c.end != nil && c.Point != "fail" && slices.Contains(before, c.target()) &&
		!slices.Contains(c.Attached, c.target())
}

func (d *diskStory) judgeDetach(c *csiCall, detached bool) {
	v := d.disks[c.Volume]
	if v == nil || !detached && c.end != nil {
		return // It did nothing.
	}
	began := c.began()
	var certain, perhaps []*mountLife
	for _, life := range v.lives {
		switch {
		case life.node != c.target() || life.maybeFrom > began.NotAfter || life.maybeTo <= began.NotBefore:
		case life.from <= began.NotBefore && life.to > began.NotAfter:
			certain = append(certain, life)
		case life.holder != "" || !d.unstaged(c, life):
			perhaps = append(perhaps, life)
		}
	}
	switch {
	case len(certain) > 0 && detached:
		d.blameDetach(v, c, certain)
	case len(certain)+len(perhaps) > 0 && !detached:
		d.ruling.unknown("a call to detach volume %s from node %s began at %s, when the node may have had it mounted, "+
			"and was cut off: whether it was detached is not known", v.name, c.target(), d.scene.clock(began.NotAfter))
	case len(perhaps) > 0:
		d.ruling.unknown("volume %s may still have been mounted as %s when it was detached at %s", v.name, perhaps[0],
			d.scene.clock(began.NotAfter))
	}
}

// unstaged reports that the node's driver had taken a mount down before a call began.
func (d *diskStory) unstaged(c *csiCall, life *mountLife) bool {
	return slices.ContainsFunc(d.log.of(rpcUnstage, rpcUnpublish), func(u *csiCall) bool {
		return u.Volume == c.Volume && u.target() == c.target() && u.ok() && u.Point != "lie" &&
			u.began().NotBefore >= life.from && u.ended().NotAfter < c.began().NotBefore
	})
}

func (d *diskStory) blameDetach(v *disk, c *csiCall, mounts []*mountLife) {
	inUse, because := d.volumesInUse(v, c.target(), c.began().NotBefore)
	wanted, marked := d.detachWanted(v, c.target(), c.ended().NotAfter)
	events := slices.Concat(c.events(), because, marked)
	paths := ""
	until := mounts[0].to
	for i, life := range mounts {
		until = max(until, life.to)
		events = append(events, life.events...)
		switch {
		case i == 0:
			paths = life.String()
		case i < 3:
			paths += " and as " + life.String()
		}
	}
	span := history.Span{NotBefore: c.began().NotBefore, NotAfter: max(until, c.began().NotAfter)}
	d.ruling.breach(Finding{
		Promise: DetachOrder().Promise,
		Sentence: fmt.Sprintf("Volume %s was detached from node %s at %s while the node still had it mounted, at "+
			"least until %s, as %s: %s, %s.", v.name, c.target(), d.scene.clock(c.began().NotBefore),
			d.scene.clock(until), paths, wanted, inUse),
		Subject: "volume " + v.name, Node: c.target(), Span: span, Events: leading(c.events(), events),
		Faults: d.scene.faultsIn(c.during()),
	})
}

// during is the time of the whole call.
func (c *csiCall) during() history.Span {
	return history.Span{NotBefore: c.began().NotBefore, NotAfter: max(c.began().NotAfter, c.ended().NotAfter)}
}

// leading returns events of which the first few are kept as proof, those that must not be missing among them.
func leading(first, rest []int64) []int64 {
	out := slices.Clone(first)
	for _, id := range rest {
		if len(out) < maxProof && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
