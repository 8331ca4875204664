package linux

import (
	"fmt"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Mounts reads the mount table of a process, /proc/PID/mountinfo (proc_pid_mountinfo(5)). A harness on another system
// reads the tables of nodes too; mountinfo compiles its own reader on Linux alone.
func Mounts(table string) ([]*mountinfo.Info, error) {
	var out []*mountinfo.Info
	// The characters that the kernel escapes: mangle of fs/proc_namespace.c.
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#")
	for line := range strings.Lines(table) {
		mount, of, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		at, fs := strings.Split(mount, " "), strings.Split(of, " ")
		m := new(mountinfo.Info)
		_, err := fmt.Sscanf(mount, "%d %d %d:%d", &m.ID, &m.Parent, &m.Major, &m.Minor)
		if len(at) < 6 || len(fs) < 3 || err != nil {
			return nil, fmt.Errorf("read the mount table: %q is no mount", line)
		}
		m.Root, m.Mountpoint, m.Options = plain.Replace(at[3]), plain.Replace(at[4]), at[5]
		m.Optional = strings.Join(at[6:], " ")
		m.FSType, m.Source, m.VFSOptions = plain.Replace(fs[0]), plain.Replace(fs[1]), fs[2]
		out = append(out, m)
	}
	return out, nil
}
