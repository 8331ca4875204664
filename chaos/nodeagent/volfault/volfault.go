// Package volfault damages the file system of a volume on the node that has it mounted, looks at it as its victim does,
// and undoes the damage by the note that it wrote before. It needs no API server, kubelet or harness.
package volfault

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// Kind is a way to do harm to a volume's file system.
type Kind string

// The ways. Power and gone shut the file system down without its log being flushed; what was not synced is lost.
const (
	Power    Kind = "power"     // Shut down together with its users, for a node that loses its power next.
	Gone     Kind = "gone"      // Shut down, and nothing else: every access is an I/O error.
	Full     Kind = "full"      // A file of ours takes every block.
	ReadOnly Kind = "read-only" // Mounted read-only.
	Flip     Kind = "flip"      // Bytes in one page of a file are flipped. It stays.
	Truncate Kind = "truncate"  // The second half of a file is cut off. It stays.
)

// Kinds returns the ways, in alphabetical order.
func Kinds() []Kind { return []Kind{Flip, Full, Gone, Power, ReadOnly, Truncate} }

// Stays reports that the harm is not undone: it is for the checks to find.
func (k Kind) Stays() bool { return k == Flip || k == Truncate }

// Mount is one place where a file system is mounted.
type Mount struct {
	Path string `json:"path"`
	Root string `json:"root"` // The directory of the file system that is seen there, "/" for all of it.
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

// root returns where all of the file system is seen.
func (v Volume) root() (string, error) {
	i := slices.IndexFunc(v.Mounts, func(m Mount) bool { return m.Root == "/" })
	if i < 0 {
		return "", fmt.Errorf("find the root of volume %q: no mount on this node shows it", v.PV)
	}
	return v.Mounts[i].Path, nil
}

// report begins a report on the volume.
func (v Volume) report(at history.Time) Report {
	return Report{PV: v.PV, At: at, Mounted: true, FileSystem: v.FileSystem, Device: v.Device, Source: v.Source}
}

// ErrNotMounted is wrapped by the error for a volume that the node has not mounted.
var ErrNotMounted = errors.New("it is not mounted on this node")

// Access is one access to the file system from where its victim sees it.
type Access struct {
	By    string `json:"by"` // For example "mysqld, pid 912, at /var/lib/mysql", or a mount of the node's own.
	Op    string `json:"op"` // AccessRead or AccessWrite.
	Error string `json:"error,omitempty"`
}

// The accesses that are tried.
const (
	AccessRead  = "read"  // The first byte of a file that is there.
	AccessWrite = "write" // A block of a new file, synced.
)

// String says what came of it.
func (t Access) String() string {
	if t.Error == "" {
		return fmt.Sprintf("a %s by %s succeeds", t.Op, t.By)
	}
	return fmt.Sprintf("a %s by %s fails with %s", t.Op, t.By, t.Error)
}

// What a look finds of a file of ours that tells synced data from data that was not.
const (
	Whole   = "whole"
	Missing = "missing"
	Partial = "partial" // It is there, and its content is not.
)

// Report is what is known of one volume after something was done to it, or when it was looked at.
type Report struct {
	PV         string       `json:"pv"`
	At         history.Time `json:"at" clock:"to"`
	Mounted    bool         `json:"mounted"`
	FileSystem string       `json:"fileSystem,omitempty"`
	Device     string       `json:"device,omitempty"`
	Source     string       `json:"source,omitempty"`
	ReadOnly   bool         `json:"readOnly,omitempty"` // As statfs tells it.
	Available  uint64       `json:"available"`          // Blocks, as statfs tells it: those that anybody can have.
	Tries      []Access     `json:"tries,omitempty"`
	// Synced and Unsynced are what has become of the two files that are written before the power is lost: the one was
	// synced, the other not.
	Synced   string  `json:"synced,omitempty"`
	Unsynced string  `json:"unsynced,omitempty"`
	Killed   int     `json:"killed,omitempty"` // Processes that were killed because they had it open.
	Damage   *Damage `json:"damage,omitempty"`
	Undone   string  `json:"undone,omitempty"` // What was done to undo it; empty when there was nothing to undo.
}

// Damage is what was done to a file for good.
type Damage struct {
	File   string `json:"file"`             // Relative to the directory that the pod is given.
	Page   int64  `json:"page,omitempty"`   // Of a flip: its number.
	Offset int64  `json:"offset,omitempty"` // Of a flip: where the bytes are. Of a truncation: the size now.
	Length int64  `json:"length,omitempty"` // Of a flip: how many bytes. Of a truncation: how many were cut off.
	Before string `json:"before,omitempty"` // SHA-256 of the page or of what was cut off.
	After  string `json:"after,omitempty"`  // Of a flip: SHA-256 of the page now, as read from the disk.
}

// String says what was done.
func (d Damage) String() string {
	if d.After == "" {
		return fmt.Sprintf("%d bytes were cut off, %d are left", d.Length, d.Offset)
	}
	return fmt.Sprintf("%d bytes of page %d are flipped; its SHA-256 was %.12s and is %.12s",
		d.Length, d.Page, d.Before, d.After)
}

// FileView is a file of a volume as its victim sees it.
type FileView struct {
	By   string `json:"by"`   // As in Access.
	Size int64  `json:"size"` // Bytes.
	Page string `json:"page"` // SHA-256 of the page that was asked for, "" for one beyond its end.
}

// Note is the mark of an injury, written before the act to the file of that name among what its owner holds on the
// node. It has all that undoing needs.
type Note struct {
	Kind     Kind         `json:"kind"`
	At       history.Time `json:"at" clock:"to"`
	Volume   Volume       `json:"volume"`
	Backing  string       `json:"backing,omitempty"`  // Path of the file behind a loop device that frees itself.
	Remaking bool         `json:"remaking,omitempty"` // Its mounts were being made anew: Volume has what belongs there.
}
