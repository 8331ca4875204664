// Package engine finds a container engine that kind can use, and makes one where there is none: it never claims that
// an engine works without having run a privileged container on it, and never touches one that works.
//
// It runs commands and writes to the host: /etc/docker/daemon.json, its own state directory and, for too low inotify
// limits, /proc/sys. Everything it changed is recorded there before it is changed, and Clean undoes it. It may import
// tools/offline/system and go-containerregistry, and nothing else of this module but its own parts.
package engine
