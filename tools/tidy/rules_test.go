package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	module   = "github.com/seatrial/seatrial/"
	registry = "e2e/trial/registry.go"
)

// low may be imported by every folder: these packages are what the rest speaks of.
func low() []string {
	return []string{"chaos/await", "chaos/history", "chaos/plan"}
}

// rank orders the folders; imports go from a higher rank to a lower one. Peers are in peerBans.
func rank() map[string]int {
	return map[string]int{"clusters": 1, "chaos": 2, "fixtures": 2, "e2e": 3, "tools": 4}
}

// peerBans are the imports between chaos and fixtures that are not allowed.
func peerBans() []arrow {
	return []arrow{{"chaos", "fixtures"}, {"fixtures", "chaos/fault"}, {"fixtures", "chaos/scenarios"}}
}

// arrow is an import from one folder, or what is below it, to another.
type arrow struct{ from, to string }

// upward lists the imports that the order of the folders forbids and that stand nevertheless.
func upward() []arrow {
	return []arrow{
		{"fixtures", "e2e/observe/ledgerfile"}, // The driver writes the mount ledger's file.
	}
}

// owner says which folders alone may import a package.
type owner struct {
	imp     string
	folders []string
}

// owned says which folders alone may import a package. The registry may name every part of this module. A folder
// may always import what is below itself.
func owned() []owner {
	return []owner{
		{module + "chaos/fault/chaosmesh", nil},
		{module + "chaos/fault/controlplane", nil},
		{module + "chaos/fault/network", nil},
		{module + "chaos/fault/node", nil},
		{module + "chaos/fault/object", nil},
		{module + "chaos/fault/storage", nil},
		{module + "clusters/existing", nil},
		{module + "clusters/fake", nil},
		{module + "clusters/kind", nil},
		{module + "fixtures/external", nil},
		{module + "fixtures/light", nil},
		{module + "fixtures/localpv", nil},
		{module + "fixtures/mysql", nil},
		{module + "fixtures/shareddisk", nil},
		{"database/sql", []string{"fixtures/mysql"}},
		{"github.com/chaos-mesh", []string{"chaos/fault/chaosmesh"}},
		{"github.com/go-sql-driver/mysql", []string{"fixtures/mysql"}},
		{"github.com/onsi/ginkgo", []string{"e2e/suites", "tools/seatrial"}}, // Its label filters.
		{"github.com/onsi/gomega", []string{"e2e/suites"}},
		{"sigs.k8s.io/kind", []string{"clusters/kind", "tools/offline"}},
	}
}

// onNode are the programs that link the on-node halves of concrete parts, or build their images.
func onNode() []string {
	return []string{"tools/agent", "tools/offline"}
}

// pure are the packages that do no I/O and read no clock: a saved run gets the same verdict anywhere.
func pure() []string {
	return []string{"chaos/history", "chaos/plan", "chaos/scenarios", "e2e/certify/audit", "e2e/certify/certificate",
		"e2e/certify/twin",
		"e2e/check", "e2e/explain", "e2e/nightly", "e2e/report", "e2e/world", "fixtures/datafiles/innodb"}
}

// impure are the packages of the standard library that a pure package does without.
func impure() []string {
	return []string{"crypto/rand", "database/sql", "log", "math/rand", "net", "os", "syscall"}
}

// harmless are the libraries that a pure package may use.
func harmless() []string {
	return []string{"github.com/anishathalye/porcupine", "github.com/buger/jsonparser", "k8s.io/api",
		"k8s.io/apimachinery", "k8s.io/client-go/util/jsonpath",
		"k8s.io/component-helpers/scheduling/corev1/nodeaffinity", "sigs.k8s.io/json", "sigs.k8s.io/yaml",
		"github.com/google/go-cmp"}
}

// clock are the functions of package time that a pure package does not call.
func clock() []string {
	return []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}
}

// source is one Go file outside testdata.
type source struct {
	path string
	ast  *ast.File
}

func (s source) dir() string              { return path.Dir(s.path) }
func (s source) test() bool               { return strings.HasSuffix(s.path, "_test.go") }
func (s source) top() string              { return strings.SplitN(s.path, "/", 2)[0] }
func (s source) below(dirs []string) bool { return within(dirs, s.dir()) }

// Check reads the module in root and returns one line for each violation.
func Check(root fs.FS) ([]string, error) {
	fset := token.NewFileSet()
	files, err := load(root, fset)
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	var out []string
	report := func(pos token.Pos, format string, args ...any) {
		out = append(out, fmt.Sprintf("%s: %s", fset.Position(pos), fmt.Sprintf(format, args...)))
	}
	for _, f := range files {
		for _, spec := range f.ast.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, fmt.Errorf("%s: import path: %w", f.path, err)
			}
			if why := forbidden(f, imp); why != "" {
				report(spec.Pos(), "%s", why)
			}
		}
		if f.below(pure()) && !f.test() {
			impureCalls(f, report)
		}
	}
	unlisted(files, report)
	unlabelled(files, report)
	return out, nil
}

// load parses every Go file of the module; nested modules, testdata and hidden folders are not part of it.
func load(root fs.FS, fset *token.FileSet) ([]source, error) {
	var files []source
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			_, nested := fs.Stat(root, name+"/go.mod")
			if nested == nil || d.Name() == "testdata" || d.Name()[0] == '.' || name == "runs" || name == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		files = append(files, source{name, parsed})
		return err
	})
	return files, err
}

func within(dirs []string, dir string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return under(dir, d) })
}

func under(dir, root string) bool { return dir == root || strings.HasPrefix(dir, root+"/") }

// forbidden says why a file may not import a package, or nothing. Tests may import any part: nothing links them.
func forbidden(f source, imp string) string {
	if f.test() || strings.HasSuffix(f.dir(), "test") {
		return ""
	}
	dir, ours := strings.CutPrefix(imp, module)
	if ours && upwards(f, dir) {
		return fmt.Sprintf("layers: %s imports %s, against the order of the folders", f.dir(), dir)
	}
	for _, o := range owned() {
		part, ours := strings.CutPrefix(o.imp, module)
		exempt := f.below(o.folders) || ours && (f.below([]string{part}) || f.below(onNode()) || f.path == registry)
		if under(imp, o.imp) && !exempt {
			return fmt.Sprintf("registry: %s imports %s; go through its port", f.path, imp)
		}
	}
	if f.below(pure()) && !allowed(imp, dir, ours) {
		return fmt.Sprintf("pure: %s imports %s; take the value as an argument", f.dir(), imp)
	}
	return ""
}

func upwards(f source, dir string) bool {
	from := f.dir()
	covers := func(a arrow) bool { return under(from, a.from) && under(dir, a.to) }
	if within(low(), dir) || slices.ContainsFunc(upward(), covers) {
		return false
	}
	return rank()[strings.SplitN(dir, "/", 2)[0]] > rank()[f.top()] || slices.ContainsFunc(peerBans(), covers)
}

// allowed reports whether a pure package may import a package.
func allowed(imp, dir string, ours bool) bool {
	switch first, _, _ := strings.Cut(imp, "/"); {
	case ours:
		return within(pure(), dir)
	case strings.Contains(first, "."):
		return within(harmless(), imp)
	}
	return imp == "math/rand/v2" || !within(impure(), imp)
}

// impureCalls finds clocks, and chance that does not come from a passed source.
func impureCalls(f source, report func(token.Pos, string, ...any)) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := sel.X.(*ast.Ident)
		switch name := sel.Sel.Name; {
		case !ok:
		case pkg.Name == "time" && slices.Contains(clock(), name):
			report(sel.Pos(), "pure: time.%s; take the time from the history or as an argument", name)
		case pkg.Name == "rand" && !strings.HasPrefix(name, "New") && name != "Rand" && name != "Source":
			report(sel.Pos(), "pure: rand.%s draws from the global source; take a *rand.Rand", name)
		}
		return true
	})
}

// unlisted finds constructors of faults, workloads, checks and scenarios that no list names: they are in no trial.
func unlisted(files []source, report func(token.Pos, string, ...any)) {
	named := map[string]int{}
	for _, f := range files {
		if !f.test() {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					named[id.Name]++
				}
				return true
			})
		}
	}
	for _, f := range files {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && !f.test() && constructor(fn) && named[fn.Name.Name] == 1 {
				report(fn.Pos(), "registry: %s is in no list", fn.Name.Name)
			}
		}
	}
}

// unlabelled finds API objects that are created without labels: each has clusters.ManagedByLabel. An ObjectMeta with a
// name and no labels is right only for what is no object, such as an eviction.
func unlabelled(files []source, report func(token.Pos, string, ...any)) {
	for _, f := range files {
		makes := within([]string{"chaos", "clusters", "fixtures"}, f.dir())
		if f.test() || !makes || slices.Contains(unlabelledFiles(), f.path) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if sel, ok := literal.Type.(*ast.SelectorExpr); !ok || sel.Sel.Name != "ObjectMeta" {
				return true
			}
			has := map[string]bool{}
			for _, e := range literal.Elts {
				if pair, ok := e.(*ast.KeyValueExpr); ok {
					has[fmt.Sprint(pair.Key)] = true
				}
			}
			if has["Name"] && !has["Labels"] {
				report(literal.Pos(), "labels: an object without labels; give it clusters.ManagedByLabel")
			}
			return true
		})
	}
}

// unlabelledFiles make an eviction, and a manifest that gets its labels when it is created.
func unlabelledFiles() []string {
	return []string{"chaos/fault/object/drain.go", "chaos/fault/chaosmesh/manifest.go"}
}

// constructor reports whether a function makes something that a list must name.
func constructor(fn *ast.FuncDecl) bool {
	if fn.Recv != nil || !fn.Name.IsExported() || fn.Type.Params.NumFields() > 0 || fn.Type.Results.NumFields() != 1 {
		return false
	}
	result := fn.Type.Results.List[0].Type
	if sel, ok := result.(*ast.SelectorExpr); ok {
		result = sel.Sel
	}
	id, ok := result.(*ast.Ident)
	return ok && slices.Contains([]string{"Check", "Definition", "Scenario"}, id.Name)
}
