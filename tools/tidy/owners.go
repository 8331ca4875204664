package tidy

import (
	"fmt"
	"path"
	"strings"
)

// owner says which folders alone may import a package, and why.
type owner struct {
	imp   string // The import path, with everything below it.
	dirs  []string
	tests bool // Tests anywhere may import it, too.
	why   string
}

func ownerTable() []owner {
	const sql = "what was written, and what was answered, is remembered in one place: the recording client"
	const assert = "everything else returns errors, so that the command line and the specs share one path"
	const argv = "what is run goes through a node or a runner that a fake can take the place of, and record"
	// tidy:list
	return []owner{
		{imp: "database/sql", dirs: []string{"fixtures/mysql"}, why: sql},
		{imp: "github.com/chaos-mesh", dirs: []string{"chaos/fault/mesh"},
			why: "its types are one family of faults, not the harness's own language"},
		{imp: "github.com/go-sql-driver/mysql", dirs: []string{"fixtures/mysql"}, why: sql},
		{imp: "github.com/onsi/ginkgo", dirs: []string{"e2e/suites"}, tests: true, why: assert},
		{imp: "github.com/onsi/gomega", dirs: []string{"e2e/suites"}, tests: true, why: assert},
		{imp: "github.com/spf13/cobra", dirs: []string{"tools"}, why: "only a program has a command line"},
		{imp: "github.com/stretchr/testify", why: "comparisons are made with go-cmp, which shows what differs"},
		{imp: "os/exec", tests: true, why: argv, dirs: []string{"chaos/deadman/outside", "clusters",
			"e2e/observe/agentbin", "fixtures/fsck", "fixtures/localpv/nodevolume", "fixtures/mysql/start",
			"fixtures/shareddisk/disk", "tools"}},
		{imp: "sigs.k8s.io/kind", dirs: []string{"clusters/kind"},
			why: "a trial must run on any cluster; kind is one provider behind the port"},
	}
}

func owners() Rule {
	return Rule{
		Name: "owners",
		Why:  "A library has one owner in the house, so that replacing it touches one folder.",
		Fix:  "Use the owner's port; if there is none for this, add a method to it.",
		Find: func(t *Tree) []Violation {
			var out []Violation
			table := ownerTable()
			for _, f := range t.Code(true) {
				for _, imp := range imports(t, f) {
					for _, o := range table {
						if under(imp.path, o.imp) && !o.allows(f) {
							what := fmt.Sprintf("imports %s, which belongs to %s", imp.path, ownerName(o))
							out = append(out, Violation{Path: f.Path, Line: imp.line, What: what, Why: o.why})
						}
					}
				}
			}
			return append(out, testingImports(t)...)
		},
	}
}

func (o owner) allows(f *File) bool { return underAny(f.Dir(), o.dirs) || o.tests && f.IsTest() }

func ownerName(o owner) string {
	if len(o.dirs) == 0 {
		return "nobody"
	}
	n := len(o.dirs) - 1
	if n == 0 {
		return o.dirs[0]
	}
	return strings.Join(o.dirs[:n], ", ") + " and " + o.dirs[n]
}

// forTests reports whether a file is of a package made for tests: its name ends in "test".
func forTests(f *File) bool { return strings.HasSuffix(path.Base(f.Dir()), "test") }

// testingImports finds "testing" outside tests and outside packages made for tests.
func testingImports(t *Tree) []Violation {
	var out []Violation
	for _, f := range t.Code(false) {
		if forTests(f) || underAny(f.Dir(), pureDirs()) {
			continue
		}
		for _, imp := range imports(t, f) {
			if imp.path == "testing" {
				out = append(out, Violation{Path: f.Path, Line: imp.line, What: "imports testing outside a test",
					Why: "A part that asserts cannot be driven by a program.",
					Fix: "Return an error, or move the file into a package whose name ends in test."})
			}
		}
	}
	return out
}

// concretes are the folders that e2e/trial/registry.go alone names.
func concretes(dir string) bool {
	seg := strings.Split(dir, "/")
	if under(dir, "chaos/fault") {
		return len(seg) > 2 && !strings.HasSuffix(seg[2], "test")
	}
	return underAny(dir, []string{"clusters/existing", "clusters/fake", "clusters/kind", "fixtures/localpv",
		"fixtures/mysql", "fixtures/shareddisk"})
}

const registryFile = "e2e/trial/registry.go"

func registry() Rule {
	return Rule{
		Name: "registry",
		Why:  "Only " + registryFile + " names concrete parts, so that a new one is one file and one line.",
		Fix:  "Go through the port, and let the registry hand the concrete part in.",
		Find: func(t *Tree) []Violation {
			var out []Violation
			for _, f := range t.Code(false) {
				if f.Path == registryFile {
					continue
				}
				_, part, _ := place(f.Dir())
				for _, imp := range ours(t, f) {
					if _, theirs, _ := place(imp.path); concretes(imp.path) && theirs != part {
						what := fmt.Sprintf("names the concrete part %s", imp.path)
						out = append(out, Violation{Path: f.Path, Line: imp.line, What: what})
					}
				}
			}
			return out
		},
	}
}
