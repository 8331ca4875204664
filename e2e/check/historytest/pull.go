package historytest

import "github.com/seatrial/seatrial/chaos/history"

// Pull adds that the disk of a volume, with the backing file of that inode, was pulled out of a node between two
// moments, and shown to be.
func (t *Trial) Pull(pv, node string, inode uint64, from, to float64, more func(*history.Pull)) {
	p := history.Pull{
		Node: node, Boot: FirstBoot, Volume: Handle(pv), Identity: Identity(inode), ShutDown: GlobalPath(pv),
		Tries: []history.Try{
			{Of: history.TryDevice, What: "read of 4096 bytes at 0 with O_DIRECT"},
			{Of: history.TryFileSystem, What: "sync of the root", Errno: history.EIO},
		},
	}
	if more != nil {
		more(&p)
	}
	t.Add(history.Event{Kind: history.KindPull, Source: "csi/" + node, Span: history.Between(At(from), At(to)),
		Pull: &p})
}
