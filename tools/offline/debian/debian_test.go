package debian

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const deb822 = `# Comment.
Types: deb deb-src
URIs: http://mirror.invalid/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian.gpg

Types: deb
URIs: http://mirror.invalid/security
Suites:
 bookworm-security
Components: main
Signed-By: -----BEGIN
 KEY

Enabled: no
Types: deb
URIs: http://off.invalid/
Suites: bookworm

Types: deb-src
URIs: http://source.invalid/
Suites: bookworm
`

const oneLine = `deb [arch=amd64 signed-by=/k.gpg] http://mirror.invalid/debian bookworm main contrib # Comment.
#deb http://off.invalid/ bookworm main
deb-src http://source.invalid/ bookworm main
deb http://vendor.invalid/apt cloud-bookworm main
`

func TestSources(t *testing.T) {
	want822 := []source{
		{
			URIs: []string{"http://mirror.invalid/debian"}, Suites: []string{"bookworm", "bookworm-updates"},
			Components: []string{"main", "contrib"}, SignedBy: "/usr/share/keyrings/debian.gpg",
		},
		{
			URIs: []string{"http://mirror.invalid/security"}, Suites: []string{"bookworm-security"},
			Components: []string{"main"},
		},
	}
	if diff := cmp.Diff(want822, parseDeb822(deb822)); diff != "" {
		t.Errorf("deb822 (-want +got):\n%s", diff)
	}
	wantLine := []source{
		{
			URIs: []string{"http://mirror.invalid/debian"}, Suites: []string{"bookworm"},
			Components: []string{"main", "contrib"}, SignedBy: "/k.gpg",
		},
		{URIs: []string{"http://vendor.invalid/apt"}, Suites: []string{"cloud-bookworm"}, Components: []string{"main"}},
	}
	if diff := cmp.Diff(wantLine, parseOneLine(oneLine)); diff != "" {
		t.Errorf("one-line (-want +got):\n%s", diff)
	}
}

func TestLinesFor(t *testing.T) {
	host := append(parseDeb822(deb822), parseOneLine("deb http://vendor.invalid/apt cloud-bookworm main\n")...)
	const key = "[signed-by=/usr/share/keyrings/debian.gpg] "
	tests := []struct {
		name, codename, suite string
		want                  []string
	}{
		{"own release", "bookworm", "bookworm", []string{
			"deb " + key + "http://mirror.invalid/debian bookworm main",
			"deb " + key + "http://mirror.invalid/debian bookworm-updates main",
			"deb http://mirror.invalid/security bookworm-security main",
		}},
		{"other release", "bookworm", "trixie", []string{
			"deb " + key + "http://mirror.invalid/debian trixie main",
			"deb " + key + "http://mirror.invalid/debian trixie-updates main",
			"deb http://mirror.invalid/security trixie-security main",
		}},
		{"rolling", "bookworm", "sid", []string{"deb " + key + "http://mirror.invalid/debian sid main"}},
		{"not a Debian", "noble", "bookworm", nil},
		{"no codename", "", "bookworm", nil},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, linesFor(host, test.codename, test.suite)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestCommandLine(t *testing.T) {
	s := Spec{
		Name: "db", Suite: "sid", Packages: []string{"b", "a"},
		Includes: []string{"/usr/share/doc/*/copyright"}, AptOpts: []string{`Acquire::Check-Valid-Until "false"`},
	}
	want := []string{
		"mmdebstrap", "--variant=minbase", "--architectures=amd64", "--format=tar", "--include=b,a",
		`--aptopt=APT::Install-Recommends "false"`, `--aptopt=Acquire::Retries "3"`,
		`--aptopt=Acquire::Check-Valid-Until "false"`,
	}
	for _, pattern := range documentation() {
		want = append(want, "--dpkgopt=path-exclude="+pattern)
	}
	want = append(want, "--dpkgopt=path-include=/usr/share/doc/*/copyright", "sid", "/out.tar", "-")
	if diff := cmp.Diff(want, mmdebstrap(s, "amd64", "/out.tar", true)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSum(t *testing.T) {
	base := Spec{Name: "x", Suite: "sid", Packages: []string{"a", "b"}}
	if base.Sum("amd64") != (Spec{Name: "y", Suite: "sid", Packages: []string{"b", "a"}}).Sum("amd64") {
		t.Error("the name and the order of the packages must not change the digest")
	}
	seen := map[string]bool{base.Sum("amd64"): true}
	for i, s := range []Spec{
		{Suite: "bookworm", Packages: []string{"a", "b"}},
		{Suite: "sid", Packages: []string{"a"}},
		{Suite: "sid", Packages: []string{"a", "b"}, Includes: []string{"/x"}},
		{Suite: "sid", Packages: []string{"a", "b"}, AptOpts: []string{"x"}},
	} {
		if seen[s.Sum("amd64")] {
			t.Errorf("spec %d has the digest of another", i)
		}
		seen[s.Sum("amd64")] = true
	}
	if seen[base.Sum("arm64")] {
		t.Error("the architecture must change the digest")
	}
}

func FuzzSources(f *testing.F) {
	f.Add(deb822)
	f.Add(oneLine)
	f.Add("deb [")
	f.Add(":\n :\n")
	f.Fuzz(func(t *testing.T, text string) {
		all := append(parseDeb822(text), parseOneLine(text)...)
		for _, l := range linesFor(all, "bookworm", "sid") {
			if strings.ContainsAny(l, "\n\r") {
				t.Errorf("line %q would be two", l)
			}
		}
	})
}
