package gobuild

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/tools/offline/store"
)

// Module is one thing to compile: a small module that pins what it is made from, and the programs wanted of it.
type Module struct {
	// Name names the module in progress lines, logs and the store.
	Name string
	// Files are the module's files by slash-separated path; go.mod and go.sum are among them.
	Files map[string][]byte
	// Packages are the import paths of the programs. Paths that begin with "./" are packages among Files.
	Packages []string
	// Binary names the program when there is one package; otherwise, and when it is empty, the last element of
	// each package's path is its name.
	Binary string
	// Tags are build tags.
	Tags []string
	// Cgo lets C be compiled in. The program is then linked statically, so that it runs on any C library.
	Cgo bool
	// Variables are strings set at link time, by "import/path.Name".
	Variables map[string]string
}

// args returns the arguments of the one go command that compiles the module into outDir.
func (m Module) args(outDir string) []string {
	ld := []string{"-s", "-w"}
	if m.Cgo {
		ld = append(ld, "-linkmode=external", `-extldflags=-static`)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Variables)) {
		ld = append(ld, fmt.Sprintf("-X=%s=%s", name, m.Variables[name]))
	}
	args := []string{
		"go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags=" + strings.Join(ld, " "),
	}
	if len(m.Tags) > 0 {
		args = append(args, "-tags="+strings.Join(m.Tags, ","))
	}
	out := outDir + "/"
	if len(m.Packages) == 1 {
		out = path.Join(outDir, m.binary())
	}
	args = append(args, "-o", out)
	return append(args, m.Packages...)
}

func (m Module) binary() string {
	if m.Binary != "" {
		return m.Binary
	}
	return path.Base(m.Packages[0])
}

// programs returns the names of the programs that the module is compiled into.
func (m Module) programs() []string {
	if len(m.Packages) == 1 {
		return []string{m.binary()}
	}
	names := make([]string, 0, len(m.Packages))
	for _, p := range m.Packages {
		names = append(names, path.Base(p))
	}
	return names
}

// env returns the environment that the go command gets beside the caller's.
func (m Module) env(arch string) []string {
	cgo := "0"
	if m.Cgo {
		cgo = "1"
	}
	return []string{"CGO_ENABLED=" + cgo, "GOOS=linux", "GOARCH=" + arch, "GOWORK=off", "GOFLAGS=-mod=readonly"}
}

// address returns the digest of everything that decides what the programs are.
func (m Module) address(goVersion, arch string) string {
	a := store.Inputs{
		"format": "1", "go": goVersion, "args": strings.Join(m.args("OUT"), "\x00"),
		"env": strings.Join(m.env(arch), "\x00"),
	}
	for name, data := range m.Files {
		a["file:"+name] = string(data)
	}
	return a.Sum()
}
