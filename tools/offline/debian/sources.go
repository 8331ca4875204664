package debian

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is one place that apt takes packages from.
type source struct {
	URIs       []string
	Suites     []string
	Components []string
	SignedBy   string
}

// hostSources reads the apt sources below root, normally "/", in both formats that apt has.
func hostSources(root string) ([]source, error) {
	dir := filepath.Join(root, "etc/apt")
	paths := []string{filepath.Join(dir, "sources.list")}
	for _, pattern := range []string{"*.list", "*.sources"} {
		found, err := filepath.Glob(filepath.Join(dir, "sources.list.d", pattern))
		if err != nil {
			return nil, fmt.Errorf("list apt sources: %w", err)
		}
		paths = append(paths, found...)
	}
	var all []source
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read apt sources: %w", err)
		}
		if strings.HasSuffix(path, ".sources") {
			all = append(all, parseDeb822(string(data))...)
		} else {
			all = append(all, parseOneLine(string(data))...)
		}
	}
	return all, nil
}

// parseDeb822 reads the paragraphs of a ".sources" file. A key that is written into the file itself is not kept.
func parseDeb822(text string) []source {
	var all []source
	for _, paragraph := range paragraphs(text) {
		if enabled := paragraph["enabled"]; enabled == "no" || enabled == "false" {
			continue
		}
		if !slices.Contains(strings.Fields(paragraph["types"]), "deb") {
			continue
		}
		s := source{
			URIs:       strings.Fields(paragraph["uris"]),
			Suites:     strings.Fields(paragraph["suites"]),
			Components: strings.Fields(paragraph["components"]),
		}
		if key := paragraph["signed-by"]; strings.HasPrefix(key, "/") {
			s.SignedBy = key
		}
		all = append(all, s)
	}
	return all
}

// paragraphs splits deb822 text into paragraphs of fields by lower-case name.
func paragraphs(text string) []map[string]string {
	var all []map[string]string
	current, field := map[string]string{}, ""
	flush := func() {
		if len(current) > 0 {
			all = append(all, current)
		}
		current, field = map[string]string{}, ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case line == "":
			flush()
		case strings.HasPrefix(line, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if field != "" {
				current[field] += " " + strings.TrimSpace(line)
			}
		default:
			name, value, _ := strings.Cut(line, ":")
			field = strings.ToLower(strings.TrimSpace(name))
			current[field] = strings.TrimSpace(value)
		}
	}
	flush()
	return all
}

// parseOneLine reads the lines of a ".list" file.
func parseOneLine(text string) []source {
	var all []source
	scanner := bufio.NewScanner(strings.NewReader(text))
	for scanner.Scan() {
		line, _, _ := strings.Cut(scanner.Text(), "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb ")
		if !ok {
			continue
		}
		var s source
		if rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "[") {
			options, after, _ := strings.Cut(rest[1:], "]")
			for _, option := range strings.Fields(options) {
				if key, ok := strings.CutPrefix(option, "signed-by="); ok {
					s.SignedBy = key
				}
			}
			rest = after
		}
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			continue
		}
		s.URIs, s.Suites, s.Components = fields[:1], fields[1:2], fields[2:]
		all = append(all, s)
	}
	return all
}

// linesFor returns sources.list lines for a suite, from where this host, itself of the release codename, takes its
// own packages. No lines means that the host is not a Debian that says where to find the suite.
func linesFor(all []source, codename, suite string) []string {
	var lines []string
	for _, s := range all {
		for _, hostSuite := range s.Suites {
			rest, ok := strings.CutPrefix(hostSuite, codename)
			if !ok || codename == "" {
				continue
			}
			// A rolling suite has neither updates nor security.
			if rest != "" && (suite == "sid" || suite == "unstable") {
				continue
			}
			if rest != "" && rest != "-updates" && rest != "-security" {
				continue
			}
			for _, uri := range s.URIs {
				lines = append(lines, line(s, uri, suite+rest))
			}
		}
	}
	return lines
}

func line(s source, uri, suite string) string {
	options := ""
	if s.SignedBy != "" {
		options = "[signed-by=" + s.SignedBy + "] "
	}
	components := s.Components
	if slices.Contains(components, "main") {
		components = []string{"main"}
	}
	return fmt.Sprintf("deb %s%s %s %s", options, uri, suite, strings.Join(components, " "))
}

// codename reads this host's Debian release name, or "".
func codename(root string) string {
	data, err := os.ReadFile(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return ""
	}
	for l := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(l), "VERSION_CODENAME="); ok {
			return strings.Trim(name, `"`)
		}
	}
	return ""
}
