package mountledger

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// mountEvent is one event of a fanotify group made with FAN_REPORT_MNT.
type mountEvent struct {
	id       uint64 // The kernel's unique mount id.
	attach   bool
	detach   bool // Both are set for a mount that was moved.
	overflow bool // The kernel dropped events; nothing else is set.
}

// The layout of struct fanotify_event_metadata and of the records that follow it, from the kernel's
// include/uapi/linux/fanotify.h. Numbers are in the machine's own byte order.
const (
	eventHeaderSize  = 24
	recordHeaderSize = 4
	eventVersion     = 3
)

// parseEvents decodes one read from a fanotify group.
func parseEvents(buf []byte, events []mountEvent) ([]mountEvent, error) {
	for len(buf) > 0 {
		if len(buf) < eventHeaderSize {
			return events, fmt.Errorf("parse fanotify event: %d bytes, want at least %d", len(buf), eventHeaderSize)
		}
		length := int(binary.NativeEndian.Uint32(buf))
		header := int(binary.NativeEndian.Uint16(buf[6:]))
		if buf[4] != eventVersion || header < eventHeaderSize || length < header || length > len(buf) {
			return events, fmt.Errorf("parse fanotify event: version %d, header %d bytes, length %d of %d bytes",
				buf[4], header, length, len(buf))
		}
		mask := binary.NativeEndian.Uint64(buf[8:])
		e := mountEvent{attach: mask&unix.FAN_MNT_ATTACH != 0, detach: mask&unix.FAN_MNT_DETACH != 0}
		if mask&unix.FAN_Q_OVERFLOW != 0 {
			events = append(events, mountEvent{overflow: true})
		} else {
			id, err := parseMountRecord(buf[header:length])
			if err != nil {
				return events, err
			}
			e.id = id
			if e.attach || e.detach {
				events = append(events, e)
			}
		}
		buf = buf[length:]
	}
	return events, nil
}

// parseMountRecord finds the mount id among an event's records.
func parseMountRecord(buf []byte) (uint64, error) {
	for len(buf) >= recordHeaderSize {
		length := int(binary.NativeEndian.Uint16(buf[2:]))
		if length < recordHeaderSize || length > len(buf) {
			break
		}
		// The id is the last and only field; padding before it differs between architectures.
		if buf[0] == unix.FAN_EVENT_INFO_TYPE_MNT && length >= recordHeaderSize+8 {
			return binary.NativeEndian.Uint64(buf[length-8:]), nil
		}
		buf = buf[length:]
	}
	return 0, fmt.Errorf("parse fanotify event: no mount id among its records (%d bytes left)", len(buf))
}
