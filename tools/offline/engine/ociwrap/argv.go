package ociwrap

import (
	"path/filepath"
	"strings"
)

// Kind is what sort of JSON file a runtime command reads its capabilities from.
type Kind int

// The sorts of file.
const (
	None    Kind = iota // The command has no such file.
	Config              // A bundle's config.json.
	Process             // A process.json.
)

// Target finds the file that holds the capabilities of the runc command line args (without the program's name). The
// path is relative to the working directory unless the command line has it absolute.
func Target(args []string) (path string, kind Kind) {
	command, rest := split(args)
	switch command {
	case "create", "run", "restore":
		return filepath.Join(value(rest, "bundle", "b"), "config.json"), Config
	case "exec":
		if process := value(rest, "process", "p"); process != "" {
			return process, Process
		}
	}
	return "", None
}

// split returns the command and what follows it. The global options that take a value are those of runc 1.x; any other
// option is taken for a switch.
func split(args []string) (command string, rest []string) {
	for i := 0; i < len(args); i++ {
		name, isOption := strings.CutPrefix(args[i], "-")
		if !isOption {
			return args[i], args[i+1:]
		}
		switch strings.TrimPrefix(name, "-") {
		case "root", "log", "log-format", "criu", "rootless":
			i++
		}
	}
	return "", nil
}

// value returns the value of an option by its long or short name, as "--name value", "--name=value" or "-n value". It
// ends where the options end: at "--" or at the container's name, since what follows may be a command with options of
// its own. The last one counts, as in runc.
func value(args []string, long, short string) string {
	found := ""
	for i := 0; i < len(args); i++ {
		name, isOption := strings.CutPrefix(args[i], "-")
		name = strings.TrimPrefix(name, "-")
		if !isOption || name == "" {
			break
		}
		name, with, hasValue := strings.Cut(name, "=")
		wanted := name == long || name == short
		if !hasValue && i+1 < len(args) && (wanted || takesValue(name, args[i+1])) {
			i++
			with = args[i]
		}
		if wanted {
			found = with
		}
	}
	return found
}

// takesValue tells whether the argument after an option belongs to it. The switches are those of runc 1.x; of an
// option unknown here the next argument is taken to be its value unless it looks like another option.
func takesValue(option, next string) bool {
	switch option {
	case "no-pivot", "no-new-keyring", "detach", "d", "keep", "no-subreaper", "tty", "t", "no-new-privs",
		"ignore-paused", "tcp-established", "ext-unix-sk", "shell-job", "file-locks", "auto-dedup", "lazy-pages":
		return false
	}
	return !strings.HasPrefix(next, "-")
}
