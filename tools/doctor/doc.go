// Package doctor says whether this host can carry a trial: what was found, what is needed, and the command that cures
// the difference. It changes nothing, and never says ok of what it did not look at: what cannot be told is a warning.
//
// It may import tools/offline/engine and tools/offline/system. Everything is read through System, so that each answer
// can be tested without the host that gives it.
package doctor
