// Package volfault damages the file system of a volume on the node that has it mounted, inspects it from its victim's
// side, and undoes the damage by the note that it wrote before. It needs no API server, kubelet or harness.
package volfault

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// Kind is a kind of damage to a volume's file system.
type Kind string

// The kinds. Power and gone shut the file system down without flushing its log, so unsynced data is lost.
const (
	Power    Kind = "power"     // Shut down together with its users, for a node that loses its power next.
	Gone     Kind = "gone"      // Shut down, and nothing else: every access is an I/O error.
	Full     Kind = "full"      // A file of ours takes every block.
	ReadOnly Kind = "read-only" // Mounted read-only.
	Flip     Kind = "flip"      // Bytes in one page of a file are flipped, for good.
	Truncate Kind = "truncate"  // The second half of a file is cut off, for good.
)

// Kinds returns all kinds, sorted.
func Kinds() []Kind { return []Kind{Flip, Full, Gone, Power, ReadOnly, Truncate} }

// Stays reports whether the damage is not undone: the checks must find it.
func (k Kind) Stays() bool { return k == Flip || k == Truncate }

// Mount is one place where a file system is mounted.
type Mount struct {
	Path string `json:"path"`
	Root string `json:"root"` // The directory of the file system that is mounted there, "/" for all of it.
}

// Volume is the file system of a volume, as the node has it mounted.
type Volume struct {
	PV         string  `json:"pv"`
	FileSystem string  `json:"fileSystem"`
	Device     string  `json:"device"` // "major:minor".
	Source     string  `json:"source"` // For example "/dev/loop3".
	Options    string  `json:"options"`
	Mounts     []Mount `json:"mounts"` // In the order in which they were made.
}

// root returns where the whole file system is mounted.
func (v Volume) root() (string, error) {
	i := slices.IndexFunc(v.Mounts, func(m Mount) bool { return m.Root == "/" })
	if i < 0 {
		return "", fmt.Errorf("find the root of volume %q: no mount on this node shows it", v.PV)
	}
	return v.Mounts[i].Path, nil
}

func (v Volume) report(at history.Time) Report {
	return Report{PV: v.PV, At: at, Mounted: true, FileSystem: v.FileSystem, Device: v.Device, Source: v.Source}
}

// ErrNotMounted is wrapped by the error for a volume that the node has not mounted.
var ErrNotMounted = errors.New("it is not mounted on this node")

// Access is an attempt to use the file system from its victim's side.
type Access struct {
	By    string `json:"by"` // For example "mysqld, pid 912, at /var/lib/mysql", or a mount of the node's own.
	Op    string `json:"op"` // AccessRead or AccessWrite.
	Error string `json:"error,omitempty"`
}

// The accesses.
const (
	AccessRead  = "read"  // The first byte of an existing file.
	AccessWrite = "write" // A block of a new file, synced.
)

// String describes the access and its outcome.
func (t Access) String() string {
	if t.Error == "" {
		return fmt.Sprintf("a %s by %s succeeds", t.Op, t.By)
	}
	return fmt.Sprintf("a %s by %s fails with %s", t.Op, t.By, t.Error)
}

// The state of the synced and of the unsynced file after a loss of power.
const (
	Whole   = "whole"
	Missing = "missing"
	Partial = "partial" // It exists with other content.
)

// Report is the state of a volume after a change or at an inspection.
type Report struct {
	PV         string       `json:"pv"`
	At         history.Time `json:"at" clock:"to"`
	Mounted    bool         `json:"mounted"`
	FileSystem string       `json:"fileSystem,omitempty"`
	Device     string       `json:"device,omitempty"`
	Source     string       `json:"source,omitempty"`
	ReadOnly   bool         `json:"readOnly,omitempty"` // From statfs.
	Available  uint64       `json:"available"`          // Blocks for unprivileged users, from statfs.
	Tries      []Access     `json:"tries,omitempty"`
	// Synced and Unsynced are the states of the two files written before a loss of power, of which one was synced.
	Synced   string  `json:"synced,omitempty"`
	Unsynced string  `json:"unsynced,omitempty"`
	Killed   int     `json:"killed,omitempty"` // Processes killed because they had it open.
	Damage   *Damage `json:"damage,omitempty"`
	Undone   string  `json:"undone,omitempty"` // How it was undone; empty if there was nothing to undo.
}

// Damage is permanent damage to a file.
type Damage struct {
	File   string `json:"file"`             // Relative to the directory that the pod is given.
	Page   int64  `json:"page,omitempty"`   // Of a flip: its number.
	Offset int64  `json:"offset,omitempty"` // Of a flip: where the bytes are. Of a truncation: the size now.
	Length int64  `json:"length,omitempty"` // Of a flip: how many bytes. Of a truncation: how many were cut off.
	Before string `json:"before,omitempty"` // SHA-256 of the page or of what was cut off.
	After  string `json:"after,omitempty"`  // Of a flip: SHA-256 of the page now, as read from the disk.
}

// String describes the damage.
func (d Damage) String() string {
	if d.After == "" {
		return fmt.Sprintf("%d bytes were cut off, %d are left", d.Length, d.Offset)
	}
	return fmt.Sprintf("%d bytes of page %d are flipped; its SHA-256 was %.12s and is %.12s",
		d.Length, d.Page, d.Before, d.After)
}

// FileView is a file of a volume seen from its victim's side.
type FileView struct {
	By   string `json:"by"`   // As in Access.
	Size int64  `json:"size"` // Bytes.
	Page string `json:"page"` // SHA-256 of the requested page, "" for one beyond the end.
}

// Note records damage before it is done, in a file of its owner on the node. It holds all that undoing it needs.
type Note struct {
	Kind     Kind         `json:"kind"`
	At       history.Time `json:"at" clock:"to"`
	Volume   Volume       `json:"volume"`
	Backing  string       `json:"backing,omitempty"`  // Path of the file behind a loop device that frees itself.
	Remaking bool         `json:"remaking,omitempty"` // Its mounts are being made anew, as Volume has them.
}
