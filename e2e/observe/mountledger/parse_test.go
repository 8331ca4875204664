package mountledger

import (
	"encoding/binary"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
)

func TestMain(m *testing.M) {
	if loop := os.Getenv(loopVariable); loop != "" {
		os.Exit(mountForAnother(loop, os.Getenv(targetVariable)))
	}
	if file := os.Getenv(holdVariable); file != "" {
		os.Exit(holdVolume(file))
	}
	if load := os.Getenv(playVariable); load != "" {
		os.Exit(playLoad(load, os.Args[1]))
	}
	if dir := os.Getenv(benchVariable); dir != "" {
		os.Exit(benchLedger(dir))
	}
	goleak.VerifyTestMain(m)
}

func startSleep(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func encodeEvent(e mountEvent) []byte {
	buf := make([]byte, eventHeaderSize+16)
	binary.NativeEndian.PutUint32(buf, uint32(len(buf)))
	buf[4] = eventVersion
	binary.NativeEndian.PutUint16(buf[6:], eventHeaderSize)
	var mask uint64
	if e.attach {
		mask |= unix.FAN_MNT_ATTACH
	}
	if e.detach {
		mask |= unix.FAN_MNT_DETACH
	}
	if e.overflow {
		mask = unix.FAN_Q_OVERFLOW
	}
	binary.NativeEndian.PutUint64(buf[8:], mask)
	buf[24] = unix.FAN_EVENT_INFO_TYPE_MNT
	binary.NativeEndian.PutUint16(buf[26:], 16)
	binary.NativeEndian.PutUint64(buf[32:], e.id)
	return buf
}

func TestParseEventsReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var buf []byte
		var want []mountEvent
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			e := mountEvent{overflow: rapid.IntRange(0, 9).Draw(t, "overflow") == 0}
			if !e.overflow {
				e.id = rapid.Uint64().Draw(t, "id")
				bits := rapid.IntRange(1, 3).Draw(t, "mask")
				e.attach, e.detach = bits&1 != 0, bits&2 != 0
			}
			want = append(want, e)
			buf = append(buf, encodeEvent(e)...)
		}
		got, err := parseEvents(buf, nil)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(mountEvent{})); diff != "" || err != nil {
			t.Errorf("parseEvents (-want +got): %v\n%s", err, diff)
		}
	})
}

func TestParseEventsRefuses(t *testing.T) {
	t.Parallel()
	good := encodeEvent(mountEvent{id: 1, attach: true})
	with := func(at int, b byte) []byte {
		buf := append([]byte(nil), good...)
		buf[at] = b
		return buf
	}
	for name, buf := range map[string][]byte{
		"torn header": good[:10], "torn record": good[:30], "version": with(4, 9), "length 0": with(0, 0),
		"length beyond the end": with(0, 200), "header beyond the length": with(6, 200), "other record": with(24, 1),
		"record of length 0": with(26, 0), "record beyond the end": with(26, 99), "record without id": with(26, 8),
	} {
		if got, err := parseEvents(buf, nil); err == nil {
			t.Errorf("%s: %+v and no error", name, got)
		}
	}
}

func FuzzParseEvents(f *testing.F) {
	f.Add(append(encodeEvent(mountEvent{id: 7, attach: true}), encodeEvent(mountEvent{overflow: true})...))
	f.Fuzz(func(t *testing.T, buf []byte) {
		events, err := parseEvents(buf, nil)
		if len(events) > len(buf)/eventHeaderSize {
			t.Errorf("%d events (%v) from %d bytes", len(events), err, len(buf))
		}
	})
}

func encodeStatmount(mask uint64, texts ...string) []byte {
	buf := make([]byte, statmountHeaderSize)
	var area []byte
	order := binary.NativeEndian
	order.PutUint64(buf[8:], mask)
	order.PutUint32(buf[16:], 7)
	order.PutUint32(buf[20:], 1048575)
	order.PutUint32(buf[32:], sbReadOnly)
	order.PutUint64(buf[40:], 42)
	for i, offset := range []int{36, 104, 108} {
		order.PutUint32(buf[offset:], uint32(len(area)))
		area = append(append(area, texts[i]...), 0)
	}
	return slices.Concat(buf, area)
}

func TestParseStatmount(t *testing.T) {
	t.Parallel()
	got, err := parseStatmount(encodeStatmount(statmountWanted, "ext4", "/sub", "/a b\n\xff"))
	want := history.Mount{
		MountID: 42, Identity: history.Identity{Device: "7:1048575"}, Root: "/sub", Path: "/a b\n\xff",
		FSType: "ext4", ReadOnly: true,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("parseStatmount (-want +got): %v\n%s", err, diff)
	}
	got, err = parseStatmount(encodeStatmount(statmountWanted&^statmountMntPoint, "ext4", "/", "not said"))
	if err != nil || got.Path != "" {
		t.Errorf("without a mount point: %+v (%v)", got, err)
	}
	whole := encodeStatmount(statmountWanted, "a", "b", "c")
	for name, buf := range map[string][]byte{
		"short": whole[:100], "no end": whole[:len(whole)-1], "no strings": whole[:statmountHeaderSize],
		"no device": encodeStatmount(statmountWanted&^statmountSBBasic, "a", "b", "c"),
	} {
		if got, err := parseStatmount(buf); err == nil {
			t.Errorf("%s: %+v and no error", name, got)
		}
	}
}

func FuzzParseStatmount(f *testing.F) {
	f.Add(encodeStatmount(statmountWanted, "ext4", "/", "/mnt"))
	f.Fuzz(func(t *testing.T, buf []byte) {
		if m, err := parseStatmount(buf); err == nil && m.Identity.Device == "" {
			t.Errorf("parseStatmount(%q) = %+v", buf, m)
		}
	})
}

func TestIdentifyLeavesOtherDevicesAlone(t *testing.T) {
	t.Parallel()
	for _, device := range []string{"0:21", "8:1", "259:0", "70:1"} {
		got, err := identify(history.Identity{Device: device})
		if want := (history.Identity{Device: device}); err != nil || got != want {
			t.Errorf("identify(%q) = %+v (%v)", device, got, err)
		}
	}
	// A number that no loop device can have: asking for a free one would make the kernel create it.
	if got, err := identify(history.Identity{Device: "7:1048576"}); err == nil {
		t.Errorf("a loop device that cannot be: %+v and no error", got)
	}
}
