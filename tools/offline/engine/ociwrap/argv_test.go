package ociwrap

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTarget(t *testing.T) {
	const shim = "--root /r --log /l --log-format json "
	for args, want := range map[string]struct {
		path string
		kind Kind
	}{
		// What containerd's runc shim runs.
		shim + "create --bundle /b --pid-file /p ID":               {"/b/config.json", Config},
		shim + "exec --process /tmp/p1 --detach --pid-file /p ID":  {"/tmp/p1", Process},
		shim + "--systemd-cgroup create --no-pivot --bundle=/b ID": {"/b/config.json", Config},
		shim + "start ID":             {},
		"--root=/r delete --force ID": {},
		// What people and other engines run.
		"run ID":                           {"config.json", Config},
		"run -b /b ID":                     {"/b/config.json", Config},
		"run -b /a --bundle /b ID":         {"/b/config.json", Config},
		"--debug run -d -bundle /b ID":     {"/b/config.json", Config},
		"restore --bundle /b ID":           {"/b/config.json", Config},
		"exec -p /p ID":                    {"/p", Process},
		"exec -t -p /p ID":                 {"/p", Process},
		"exec --tty -e A=B --user 0:0 ID":  {},
		"exec ID ps -p /p":                 {},
		"exec -- ID -p /p":                 {},
		"exec --cap CAP_KILL ID sh -p /p":  {},
		"exec --new-option x -p /p ID":     {"/p", Process},
		"exec --new-switch --process=/p c": {"/p", Process},
		"--version":                        {},
		"--root":                           {},
		"":                                 {},
		"create --bundle":                  {"config.json", Config},
	} {
		path, kind := Target(strings.Fields(args))
		if path != want.path || kind != want.kind {
			t.Errorf("Target(%q) = %q, %d, want %q, %d", args, path, kind, want.path, want.kind)
		}
	}
}

func FuzzTarget(f *testing.F) {
	f.Add("--root /r create --bundle /b ID")
	f.Add("exec -p")
	f.Fuzz(func(t *testing.T, line string) {
		path, kind := Target(strings.Split(line, " "))
		if (kind == None) != (path == "") {
			t.Errorf("Target(%q) = %q, %d", line, path, kind)
		}
		if kind == Config && filepath.Base(path) != "config.json" {
			t.Errorf("Target(%q) = %q, not a config.json", line, path)
		}
	})
}
