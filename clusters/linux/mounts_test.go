package linux_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"

	"github.com/seatrial/seatrial/clusters/linux"
)

// TestMountsReadsWhatTheLibraryReads compares with the library, which reads on Linux alone.
func TestMountsReadsWhatTheLibraryReads(t *testing.T) {
	self, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for name, table := range map[string]string{
		"of this process": string(self),
		"escaped": `36 35 98:0 /a\040b /mnt\134x\011\043 rw,noatime shared:1 master:2 - fuse.sshfs a\012b ` +
			"rw,errors=remount-ro\n37 35 0:5 / /dev rw - tmpfs  rw,size=4k\n",
		"empty":          "",
		"too short":      "36 35 98:0 / /mnt rw\n",
		"no file system": "36 35 98:0 / /mnt rw - ext4\n",
		"no numbers":     "a b c:d / /mnt rw - ext4 /dev/sda rw\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := linux.Mounts(table)
			want, refused := mountinfo.GetMountsFromReader(strings.NewReader(table), nil)
			if name == "no numbers" { // The library takes them for 0.
				want, refused = nil, os.ErrInvalid
			}
			if (err == nil) != (refused == nil) {
				t.Fatalf("got error %v, the library %v", err, refused)
			}
			if len(got)+len(want) > 0 && !cmp.Equal(got, want) {
				t.Error(cmp.Diff(want, got))
			}
		})
	}
}
