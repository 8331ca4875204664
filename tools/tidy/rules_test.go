package tidy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// TestRules tries each rule on a bad example: the comment of testdata/RULE.txtar is what it must find in the files.
func TestRules(t *testing.T) {
	inGo := map[string]bool{"word": true, "unfinished": true, "size": true} // Their examples cannot be in the tree.
	for _, r := range Rules() {
		if inGo[r.Name] {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			a, err := txtar.ParseFile(filepath.Join("testdata", strings.ReplaceAll(r.Name, " ", "-")+".txtar"))
			if err != nil {
				t.Fatal(err)
			}
			files := fstest.MapFS{}
			for _, f := range a.Files {
				files[f.Name] = &fstest.MapFile{Data: f.Data}
			}
			want := strings.Split(strings.TrimSpace(string(a.Comment)), "\n")
			if diff := cmp.Diff(want, found(t, files, r)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// found runs one rule over some files and returns the places it finds.
func found(t *testing.T, files fstest.MapFS, r Rule) []string {
	t.Helper()
	tree, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, v := range Judge(tree, []Rule{r}, nil) {
		if v.Why == "" || v.Fix == "" || v.Rule != r.Name {
			t.Errorf("%s lacks its rule, why or fix", v)
		}
		out = append(out, fmt.Sprintf("%s:%d: %s", v.Path, max(v.Line, 1), v.What))
	}
	return out
}

func TestSizes(t *testing.T) {
	long := "package a\n" + strings.Repeat("// Line.\n", maxFile)
	body := strings.Repeat("\tg()\n", maxFunction-1)
	files := fstest.MapFS{
		"a/a.go":      {Data: []byte(long)},
		"a/a_test.go": {Data: []byte(long)},
		"a/f.go":      {Data: []byte("package a\n\nfunc f() {\n" + body + "}\n\nfunc g() {\n\tg()\n}\n")},
		"a/l.go":      {Data: []byte("package a\n\n// " + strings.Repeat("ä", maxLine) + ".\n")},
		"a/tabs.go":   {Data: []byte("package a\n\nvar a = 1 //" + strings.Repeat("\t", maxLine/tabWidth) + ".\n")},
		"a/notes.md":  {Data: []byte(long)},
	}
	want := []string{
		"a/a.go:1: 401 lines, at most 400",
		"a/f.go:3: f has 71 lines, at most 70",
		"a/l.go:3: 124 columns, at most 120",
		"a/tabs.go:3: 133 columns, at most 120",
	}
	if diff := cmp.Diff(want, found(t, files, sizes())); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

func TestWords(t *testing.T) {
	bad := []string{
		"written with an A" + "I", "cl" + "aude did it", "in this ses" + "sion we found", "as the bri" + "ef says",
		"see issue" + " #2",
		"under /wo" + "rk/main", "pull from registry." + "k8s.io/pause", "docker." + "io/library/mysql",
		"deb.deb" + "ian.org", "from proxy." + "golang.org", "a sub" + "agent",
	}
	for _, text := range bad {
		got := found(t, fstest.MapFS{"a.md": {Data: []byte("Fine.\n" + text)}}, bannedWords())
		if len(got) != 1 {
			t.Errorf("%q: found %q, want one violation", text, got)
		} else if !strings.HasPrefix(got[0], "a.md:2: ") {
			t.Errorf("%q: found %q, want it on line 2", text, got)
		}
	}
	good := "The agent briefly holds a session variable; k/k issue 61832; apt-get install docker.io; maintain.\n"
	if got := found(t, fstest.MapFS{"a.md": {Data: []byte(good)}}, bannedWords()); len(got) != 0 {
		t.Errorf("found %q in a good text", got)
	}
	mark := fstest.MapFS{"Makefile": {Data: []byte("# TO" + "DO: later\n")}}
	if got := found(t, mark, unfinished()); len(got) != 1 {
		t.Errorf("found %q, want one unfinished line", got)
	}
}

func TestMirrorNames(t *testing.T) {
	hosts := Hosts("https://go.mirror.test/x,https://user:pass@other.test:8080|direct",
		"URIs: http://deb.mirror.test/debian")
	want := []string{"go.mirror.test", "other.test", "deb.mirror.test"}
	if diff := cmp.Diff(want, hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	files := fstest.MapFS{"a.sh": {Data: []byte("curl https://deb.mirror.test/debian\n")}}
	if got := found(t, files, MirrorNames(hosts)); len(got) != 1 {
		t.Errorf("found %q, want one violation", got)
	}
}

func TestExceptions(t *testing.T) {
	files := fstest.MapFS{
		"a/a.go": {Data: []byte("package a\n\nfunc init() {}\n")},
		"b/b.go": {Data: []byte("package b\n")},
	}
	tree, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	got := Judge(tree, []Rule{initFunctions()}, []Exception{
		{Rule: "init", Path: "a", Reason: "covers"},
		{Rule: "init", Path: "b/*.go", Reason: "covers nothing"},
		{Rule: "init", Path: "c", Reason: "not there yet"},
	})
	if len(got) != 1 || !strings.Contains(got[0].What, "b/*.go covers nothing") {
		t.Errorf("found %v, want the stale exception alone", got)
	}
}

// TestTree holds the house rules over this repository.
func TestTree(t *testing.T) {
	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if tree.Module == "" || len(tree.Code(true)) < 10 {
		t.Fatalf("read %d Go files of module %q: this is not the repository", len(tree.Code(true)), tree.Module)
	}
	rules := append(Rules(), MirrorNames(ownMirrors()))
	violations := Judge(tree, rules, Exceptions())
	for _, v := range violations {
		t.Errorf("%s", v)
	}
	if len(violations) > 0 {
		t.Errorf("%d violations of the house rules", len(violations))
	}
}

// ownMirrors reads this host's configuration; what cannot be read names no mirror.
func ownMirrors() []string {
	texts := []string{os.Getenv("GOPROXY"), os.Getenv("GOSUMDB")}
	for _, pattern := range []string{"/etc/apt/sources.list", "/etc/apt/sources.list.d/*", "/usr/local/go/go.env",
		filepath.Join(os.Getenv("HOME"), ".config/go/env")} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		for _, name := range names {
			if data, err := os.ReadFile(name); err == nil {
				texts = append(texts, string(data))
			}
		}
	}
	return Hosts(texts...)
}

// TestHints holds that a hint is not empty, since a search by it would then find nothing faster.
func TestHints(t *testing.T) {
	for _, w := range words() {
		if len(w.hint) < 2 {
			t.Errorf("%s has hint %q", w.match, w.hint)
		}
	}
	for pattern, want := range map[string]string{`(?i)\bab-?cdef(gh|ij)\b`: "cdef", `\bX\.md\b`: "x.md"} {
		if got := hintOf(pattern); got != want {
			t.Errorf("hint of %s is %q, want %q", pattern, got, want)
		}
	}
}
