package database

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/seatrial/seatrial/tools/offline/debian"
	"github.com/seatrial/seatrial/tools/offline/layers"
	"github.com/seatrial/seatrial/tools/offline/proc"
	"github.com/seatrial/seatrial/tools/offline/store"
)

// serverPackage is the Debian package whose version is that of MySQL.
const serverPackage = "mysql-server-core"

// rootSpec is the Debian root that the image's files are taken from. The rolling suite has MySQL; the stable ones
// have MariaDB. Its Release file may be older than it says it should be used.
func rootSpec() debian.Spec {
	return debian.Spec{
		Name:     "mysql-root",
		Suite:    "sid",
		Packages: []string{serverPackage, "mysql-client-core"},
		Includes: []string{"/usr/share/doc/mysql-*/copyright"},
		AptOpts:  []string{`Acquire::Check-Valid-Until "false"`},
	}
}

// wanted lists what the image keeps of the Debian root, with the shared libraries that these files need.
func wanted() []string {
	return []string{
		"usr/bin/innochecksum",
		"usr/bin/mysql",
		"usr/bin/mysqladmin",
		"usr/bin/mysqlbinlog",
		"usr/lib/mysql/plugin/component_reference_cache.so",
		"usr/lib/mysql/plugin/group_replication.so",
		"usr/lib/mysql/plugin/mysql_clone.so",
		"usr/lib/mysql/plugin/semisync_replica.so",
		"usr/lib/mysql/plugin/semisync_source.so",
		"usr/sbin/mysqld",
		"usr/share/doc/mysql-client-core/copyright",
		"usr/share/doc/mysql-server-core/copyright",
		"usr/share/mysql/charsets/*",
		"usr/share/mysql/dictionary.txt",
		"usr/share/mysql/english/*",
	}
}

// makeBase writes the layer with the server, and MySQL's version, into dir.
func makeBase(ctx context.Context, cache store.Store, dir string) error {
	builder := debian.Builder{Store: cache, Runner: proc.Exec{}, Arch: runtime.GOARCH}
	archive, err := builder.Root(ctx, rootSpec())
	if err != nil {
		return err
	}
	root, err := layers.OpenRoot(archive)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // Reads only.
	status, err := root.Read("var/lib/dpkg/status")
	if err != nil {
		return err
	}
	version, err := packageVersion(status, serverPackage)
	if err != nil {
		return err
	}
	files, err := baseFiles(root, wanted())
	if err != nil {
		return err
	}
	if err := layers.WriteFile(filepath.Join(dir, layerFile), files); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, versionFile), []byte(version), 0o644)
}

// baseFiles returns the wanted files of the Debian root, without setuid bits, and the few others that a server expects.
func baseFiles(root *layers.Root, wanted []string) ([]layers.File, error) {
	files, err := root.Closure(wanted...)
	if err != nil {
		return nil, fmt.Errorf("choose files of the database image: %w", err)
	}
	have := make(map[string]bool)
	for i := range files {
		files[i].Mode &= 0o755
		have[files[i].Name] = true
	}
	for _, dir := range []string{"bin", "lib", "lib64", "sbin"} {
		if !have[dir] {
			files = append(files, layers.File{Name: dir, Link: "usr/" + dir})
		}
	}
	const nologin = ":/sbin/nologin\n"
	return append(files,
		layers.File{Name: "etc/group", Data: fmt.Appendf(nil, "root:x:0:\nmysql:x:%d:\n", GID)},
		layers.File{Name: "etc/nsswitch.conf", Data: []byte("passwd: files\ngroup: files\nhosts: files dns\n")},
		layers.File{Name: "etc/passwd",
			Data: fmt.Appendf(nil, "root:x:0:0::/root%smysql:x:%d:%d::/%s", nologin, UID, GID, nologin)},
		layers.File{Name: "root", Dir: true, Mode: 0o700},
		layers.File{Name: "tmp", Dir: true, Mode: 0o1777},
		layers.File{Name: "usr/lib64", Dir: true},
		layers.File{Name: "var/lib/mysql", Dir: true, Mode: 0o777},
	), nil
}

// packageVersion returns the upstream version of a package out of dpkg's status file.
func packageVersion(status []byte, name string) (string, error) {
	inside := false
	for line := range strings.Lines(string(status)) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case field == "Package":
			inside = value == name
		case field == "Version" && inside:
			return parseVersion(value)
		}
	}
	return "", fmt.Errorf("read version of %s: the Debian root does not have the package", name)
}

var versionRule = regexp.MustCompile(`\b(\d+\.\d+\.\d+)`)

// parseVersion takes MySQL's version out of a longer text.
func parseVersion(text string) (string, error) {
	found := versionRule.FindStringSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("no version like 9.7.4 in %q", text)
	}
	return found[1], nil
}
