package history_test

import (
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
)

// TestPullProven holds that a pull counts only with everything that shows it, from the victim's side.
func TestPullProven(t *testing.T) {
	device := history.Try{Of: history.TryDevice, What: "read"}
	refused := history.Try{Of: history.TryDevice, What: "read", Errno: "EIO"}
	system := history.Try{Of: history.TryFileSystem, What: "sync", Errno: "EIO"}
	for _, c := range []struct {
		name   string
		change func(p *history.Pull)
		want   bool
	}{
		{"whole", func(*history.Pull) {}, true},
		{"the device refuses", func(p *history.Pull) { p.Tries[0] = refused }, true},
		{"nothing was mounted", func(p *history.Pull) { p.ShutDown, p.Tries = "", p.Tries[:1] }, true},
		{"nothing tried", func(p *history.Pull) { p.Tries = nil }, false},
		{"the file system was not tried", func(p *history.Pull) { p.Tries = p.Tries[:1] }, false},
		{"the device was not tried", func(p *history.Pull) { p.Tries = p.Tries[1:] }, false},
		{"the device gave bytes", func(p *history.Pull) { p.Tries[0].Bytes = 4096 }, false},
		{"the device gave bytes and an error", func(p *history.Pull) { p.Tries[0].Bytes, p.Tries[0].Errno = 1, "EIO" },
			false},
		{"the device failed in another way", func(p *history.Pull) { p.Tries[0].Errno = "EACCES" }, false},
		{"the file system let it through", func(p *history.Pull) { p.Tries[1].Errno = "" }, false},
		{"the file system failed in another way", func(p *history.Pull) { p.Tries[1].Errno = "ENOENT" }, false},
		{"one of three got through", func(p *history.Pull) {
			p.Tries = append(p.Tries, history.Try{Of: history.TryFileSystem, What: "open"})
		}, false},
		{"it could not be done", func(p *history.Pull) { p.Error = "shut down: busy" }, false},
		{"of what is not known", func(p *history.Pull) { p.Identity = history.Identity{} }, false},
		{"the device is not known", func(p *history.Pull) { p.Identity.Device = "" }, false},
	} {
		p := history.Pull{Node: "n", Volume: "v", ShutDown: "/mnt",
			Identity: history.Identity{Device: "7:1", BackingDev: "8:1", BackingInode: 5},
			Tries:    []history.Try{device, system}}
		c.change(&p)
		if got := p.Proven(); got != c.want {
			t.Errorf("%s: proven is %v, want %v: %+v", c.name, got, c.want, p)
		}
	}
}

func TestTryInWords(t *testing.T) {
	for _, c := range []struct {
		try  history.Try
		want string
	}{
		{history.Try{Of: history.TryDevice, What: "read"}, "read of the device: no byte"},
		{history.Try{Of: history.TryDevice, What: "read", Bytes: 9}, "read of the device: it was there"},
		{history.Try{Of: history.TryFileSystem, What: "sync", Errno: "EIO"}, "sync of the file system: EIO"},
		{history.Try{Of: history.TryFileSystem, What: "sync"}, "sync of the file system: it was there"},
	} {
		if got := c.try.String(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.try, got, c.want)
		}
	}
}
