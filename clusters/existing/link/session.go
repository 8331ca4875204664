package link

import (
	"path/filepath"
	"regexp"
	"slices"
)

// Session identifies what one process of the harness has on a node.
type Session string

var sessionForm = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

// IsSession reports whether a text can name a session.
func IsSession(text string) bool { return sessionForm.MatchString(text) }

// Unit is the systemd unit that listens.
func (s Session) Unit() string { return "seatrial-link-" + string(s) + ".service" }

// Sessions is the directory of the sessions' programs. /run may forbid to execute, /usr may be read-only.
const Sessions = "/var/lib/seatrial/link"

// Program is the path of the agent's binary.
func (s Session) Program() string { return Sessions + "/" + string(s) + "/seatrial-agent" }

// RunDir is the directory, in memory, of what a boot removes.
func (s Session) RunDir() string { return "/run/seatrial/link/" + string(s) }

// IdentityFile holds the unit's certificate and key.
func (s Session) IdentityFile() string { return s.RunDir() + "/identity.json" }

// PortFile holds the port that the unit listens on.
func (s Session) PortFile() string { return s.RunDir() + "/port" }

// SessionsIn returns the sessions that have a directory below seatrial/link in any of dirs.
func SessionsIn(dirs ...string) []Session {
	var found []Session
	for _, dir := range dirs {
		list, _ := filepath.Glob(dir + "/seatrial/link/*") // The pattern is a good one.
		for _, one := range list {
			if name := filepath.Base(one); IsSession(name) && !slices.Contains(found, Session(name)) {
				found = append(found, Session(name))
			}
		}
	}
	return found
}
