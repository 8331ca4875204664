package database

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/seatrial/seatrial/tools/offline/debian"
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

// architecture is what the packages of this host are for; Debian and Go call amd64 and arm64 the same.
func architecture() string { return runtime.GOARCH }

// makeBase writes the base layer and MySQL's version into dir.
func makeBase(ctx context.Context, cache store.Store, dir string) error {
	builder := debian.Builder{Store: cache, Runner: proc.Exec{}, Arch: architecture()}
	archive, _, err := builder.Root(ctx, rootSpec())
	if err != nil {
		return err
	}
	r, err := openRoot(archive)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // Reads only.
	version, err := r.packageVersion(serverPackage)
	if err != nil {
		return err
	}
	names, err := r.selectFiles(wanted())
	if err != nil {
		return err
	}
	err = writeTo(filepath.Join(dir, layerFile), func(w io.Writer) error { return writeBase(w, r, names) })
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, versionFile), []byte(version), 0o644)
}

// packageVersion returns the upstream version of a package as dpkg's status file has it.
func (r *root) packageVersion(name string) (string, error) {
	const status = "var/lib/dpkg/status"
	e, ok := r.entries[status]
	if !ok {
		return "", fmt.Errorf("read version of %s: the Debian root has no %q", name, status)
	}
	lines := bufio.NewScanner(r.open(e))
	lines.Buffer(nil, 1<<20)
	inside := false
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "Package":
			inside = value == name
		case field == "Version" && inside:
			return parseVersion(value)
		}
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read version of %s: %w", name, err)
	}
	return "", fmt.Errorf("read version of %s: the Debian root does not have the package", name)
}
