package doctor

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/clusters/offline"
)

var update = flag.Bool("update", false, "write the golden files anew")

// patient is a host of the tests' own.
type patient struct {
	files    map[string]string
	commands map[string]string // By the whole command line; one that is not here fails.
	uid      int
	free     map[string]uint64
	events   error
}

func (p patient) ReadFile(path string) ([]byte, error) {
	text, ok := p.files[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(text), nil
}

func (p patient) Stat(path string) (fs.FileInfo, error) {
	_, err := p.ReadFile(path)
	return nil, err
}

func (p patient) Run(_ context.Context, argv ...string) ([]byte, error) {
	text, ok := p.commands[strings.Join(argv, " ")]
	if !ok {
		return nil, errors.New("not found")
	}
	return []byte(text), nil
}

func (p patient) UserID() int        { return p.uid }
func (p patient) MountEvents() error { return p.events }

func (p patient) DiskFree(path string) (uint64, error) {
	free, ok := p.free[path]
	if !ok {
		return 0, errors.New("no such path")
	}
	return free, nil
}

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	if _, err := packed.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

const goodConfig = "CONFIG_NF_TABLES=y\nCONFIG_NF_TABLES_INET=y\nCONFIG_NFT_CT=m\nCONFIG_VETH=y\nCONFIG_BRIDGE=m\n" +
	"CONFIG_NET_SCH_NETEM=m\nCONFIG_XFS_FS=m\nCONFIG_EXT4_FS=y\nCONFIG_OVERLAY_FS=y\n"

// healthy has nothing to complain of; each call makes a new one.
func healthy(t *testing.T) patient {
	t.Helper()
	return patient{
		files: map[string]string{
			"/proc/sys/kernel/osrelease":              "6.18.1\n",
			"/proc/cpuinfo":                           "processor\t: 0\nmodel\t: x\n\nprocessor\t: 1\n",
			"/proc/sys/kernel/cap_last_cap":           "40\n",
			"/proc/self/status":                       "CapBnd:\t000001ffffffffff\n",
			"/proc/filesystems":                       "nodev\tproc\n\text4\nnodev\toverlay\n",
			"/proc/config.gz":                         gzipped(t, goodConfig),
			"/dev/loop-control":                       "",
			"/sys/fs/cgroup/cgroup.controllers":       "cpu memory\n",
			"/proc/meminfo":                           "MemTotal: 1 kB\nMemAvailable:   16777216 kB\n",
			"/proc/sys/fs/inotify/max_user_watches":   "1048576\n",
			"/proc/sys/fs/inotify/max_user_instances": "8192\n",
		},
		commands: map[string]string{
			"go env GOVERSION": "go1.26.8\n", "gcc --version": "gcc 12.2.0\nCopyright\n",
			"git --version":  "git 2.39.5\n",
			"make --version": "GNU Make 4.3\n",
			"/bin/docker images --format {{.Repository}}:{{.Tag}} localhost/seatrial/node": "localhost/seatrial/" +
				"node:1\n",
		},
		free: map[string]uint64{".": 50 * gib, "/var/lib/docker": 50 * gib},
	}
}

func goodEngine(context.Context) (offline.Engine, error) {
	return offline.Engine{Name: "docker", Path: "/bin/docker", Version: "28.0.1", DataRoot: "/var/lib/docker"}, nil
}

func noEngine(context.Context) (offline.Engine, error) {
	return offline.Engine{}, &offline.NotFoundError{
		Fix: offline.EnsureCommand,
		Found: "docker: /bin/docker is there, " +
			"its daemon does not answer: cannot connect; nerdctl: not installed; podman: not installed",
	}
}

// TestRunGolden shows the whole of a healthy host's report, and of one on which everything is wrong.
func TestRunGolden(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		ok      bool
	}{
		"healthy": {Options{System: healthy(t), Engine: goodEngine, RunDir: "."}, true},
		"sick": {Options{System: patient{uid: 1000, events: errors.New("invalid argument")}, Engine: noEngine,
			RunDir: "."}, false},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := Run(t.Context(), tc.options)
			if err != nil {
				t.Fatal(err)
			}
			if report.OK != tc.ok {
				t.Errorf("ok is %t, want %t", report.OK, tc.ok)
			}
			var text bytes.Buffer
			data, err := json.MarshalIndent(report, "", "  ")
			if err := errors.Join(err, report.WriteText(&text)); err != nil {
				t.Fatal(err)
			}
			golden(t, "testdata/"+name+".txt", text.String())
			golden(t, "testdata/"+name+".json", string(data)+"\n")
			for _, check := range report.Checks {
				if (check.Status == OK) != (check.Fix == "") {
					t.Errorf("%s: status %s with the fix %q", check.What, check.Status, check.Fix)
				}
				if check.Found == "" || check.Group == "" {
					t.Errorf("%+v says too little", check)
				}
			}
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{System: healthy(t), Engine: goodEngine}); !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v, want %v", err, context.Canceled)
	}
}
