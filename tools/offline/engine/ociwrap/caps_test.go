package ociwrap

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseBounding(t *testing.T) {
	for name, tc := range map[string]struct {
		status string
		want   Set
		lacks  []string // Of a kernel whose last capability is 40.
		bad    bool
	}{
		"all": {status: "Name:\tx\nCapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000000\n", want: 1<<41 - 1},
		"one short": {status: "CapBnd:\t000001fffeffffff\n", want: 1<<41 - 1 - 1<<24,
			lacks: []string{"CAP_SYS_RESOURCE"}},
		"no line":      {status: "CapEff:\t000001fffeffffff\n", bad: true},
		"empty":        {status: "", bad: true},
		"not a number": {status: "CapBnd:\tall\n", bad: true},
		"too long":     {status: "CapBnd:\t1000001fffeffffff0\n", bad: true},
		"no line break": {status: "CapBnd: 3fffffffff", want: 1<<38 - 1,
			lacks: []string{"CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseBounding([]byte(tc.status))
			if (err != nil) != tc.bad {
				t.Fatalf("ParseBounding(%q) error = %v, want an error: %t", tc.status, err, tc.bad)
			}
			if tc.bad {
				return
			}
			if got != tc.want {
				t.Errorf("ParseBounding(%q) = %#x, want %#x", tc.status, got, tc.want)
			}
			read := func(path string) ([]byte, error) {
				files := map[string]string{"/proc/sys/kernel/cap_last_cap": "40\n", "/proc/7/status": tc.status}
				return []byte(files[path]), nil
			}
			lacks, err := Lacking(read, "7")
			if diff := cmp.Diff(tc.lacks, lacks.Names()); diff != "" || err != nil {
				t.Errorf("lacking (-want +got):\n%s%v", diff, err)
			}
		})
	}
}

func TestKnown(t *testing.T) {
	for last, want := range map[int]Set{-1: 0, 0: 1, 40: 1<<41 - 1, 63: ^Set(0), 99: ^Set(0)} {
		if got := Known(last); got != want {
			t.Errorf("Known(%d) = %#x, want %#x", last, got, want)
		}
	}
	// The kernel's header numbers these; they are the corners of the table.
	for n, want := range map[int]string{0: "CAP_CHOWN", 21: "CAP_SYS_ADMIN", 24: "CAP_SYS_RESOURCE",
		37: "CAP_AUDIT_READ", 40: "CAP_CHECKPOINT_RESTORE", 41: "CAP_41"} {
		if got := (Set(1) << n).Names(); !cmp.Equal(got, []string{want}) {
			t.Errorf("capability %d is %v, want %s", n, got, want)
		}
	}
}

func TestHas(t *testing.T) {
	allowed := Known(40) &^ (1 << 24)
	for name, want := range map[string]bool{
		"CAP_CHOWN": true, "cap_chown": true, "chown": true, "CAP_SYS_RESOURCE": false, "sys_resource": false,
		"CAP_NOT_YET_INVENTED": true, "": true,
	} {
		if got := allowed.Has(name); got != want {
			t.Errorf("Has(%q) = %t, want %t", name, got, want)
		}
	}
}
