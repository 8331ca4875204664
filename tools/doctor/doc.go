// Package doctor checks whether this host can run a trial: what was found, what is needed, and the command that adds
// what is missing. It changes nothing. What it cannot read is a warning, never ok.
//
// It may import tools/offline/engine and tools/offline/system. It reads the host through System, for tests.
package doctor
